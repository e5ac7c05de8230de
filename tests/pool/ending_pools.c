/* SPDX-License-Identifier: MIT
 *
 * Pools that end at any moment: among forks, serial queues, delayed tasks and series, groups, compound futures,
 * callbacks that give the last references back, cancellations. The end always comes; by then every future has
 * resolved, every callback has returned, and nothing counts as running.
 *
 * ending_pools [SECONDS [SEED]]. A failure prints the seed; the order of events is the machine's. */
#include "random_parts.h"

#define POOLS 2
#define ROOTS 24
#define DEEPEST 3
#define PATIENCE (60000 * MS)

static unsigned seconds = 1;
static uint64_t first_seed;

static struct {
    stint_pool *pools[POOLS];
    stint_serial *serials[POOLS];
    stint_group *group;
    stint_account *account;
    stint_mutex mutex;
    stint_future *roots[ROOTS]; /* or NULL */
    atomic_bool over;
    atomic_ulong expected; /* callbacks */
    atomic_ulong called;
} program;

/* --- What a task does --------------------------------------------------------------------------------------------- */

static int run(void *arg, void **value)
{
    uint64_t random = (uintptr_t)arg;
    (void)value;
    for (size_t actions = 1 + random_below(&random, 3); actions > 0; actions--)
        act(&random, (unsigned)(uintptr_t)arg & 15);
    return random_below(&random, 8) == 0 ? EIO : 0;
}

static int run_next(const stint_outcome *outcome, void *arg, void **value)
{
    (void)outcome;
    return run(arg, value);
}

/* The third turn is the last. */
static int run_turn(void *arg, void **value)
{
    uint64_t random = (uintptr_t)arg ^ now_ns();
    act(&random, DEEPEST);
    *value = random_below(&random, 3) == 0 ? arg : NULL;
    return 0;
}

static void count_and_release(stint_future *future, const stint_outcome *outcome, void *arg)
{
    (void)outcome;
    (void)arg;
    stint_future_release(future);
    atomic_fetch_add(&program.called, 1);
}

static stint_options random_options(uint64_t *random)
{
    static const stint_on_interrupt ways[] = { STINT_JUMP, STINT_FAIL, STINT_UNWIND };
    stint_options options = STINT_OPTIONS_INIT;
    options.on_interrupt = ways[random_below(random, 3)];
    options.preemptible = random_below(random, 8) == 0;
    if (random_below(random, 4) == 0)
        options.budget.wall_ns = random_below(random, 20) * MS + 1;
    if (random_below(random, 4) == 0)
        options.account = program.account;
    if (random_below(random, 6) == 0)
        options.priority = STINT_PRIORITY_HIGH;
    return options;
}

/* NULL: it was refused, as the pool may be closed or full. By a thread that is masked. */
static stint_future *submit_somehow(uint64_t *random, unsigned depth)
{
    stint_options options = random_options(random);
    size_t which = random_below(random, POOLS);
    stint_pool *pool = program.pools[which];
    void *arg = pack(random_next(random), depth);
    stint_future *future = NULL;
    stint_future *before = NULL;
    uint64_t time = now_ns() + random_below(random, 4) * MS;
    switch (random_below(random, 8)) {
    case 0:
        stint_submit_at(pool, run, arg, &options, time, &future);
        break;
    case 1:
        stint_submit_every(pool, run_turn, arg, &options, time, 1 + random_below(random, 2) * MS, &future);
        break;
    case 2:
    case 3:
        stint_serial_submit(program.serials[which], run, arg, &options, &future);
        break;
    case 4:
        if (stint_submit(pool, run, arg, &options, &before) == 0)
            stint_future_then_submit(before, program.pools[random_below(random, POOLS)], run_next, arg, &options,
                                     &future);
        stint_future_release(before);
        break;
    default:
        stint_submit(pool, run, arg, &options, &future);
    }
    if (future != NULL && random_below(random, 4) == 0)
        stint_group_add(program.group, future);
    return future;
}

static void wait_somehow(uint64_t *random, stint_future *future)
{
    if (random_below(random, 3) == 0)
        stint_future_wait_for(future, random_below(random, 3) * MS, NULL);
    else
        stint_future_wait(future, NULL);
}

/* Its callback has the last reference; no thread may look at it after this. */
static void leave_to_callback(stint_future *future)
{
    atomic_fetch_add(&program.expected, 1);
    if (stint_future_then(future, count_and_release, NULL) == 0)
        return;
    atomic_fetch_sub(&program.expected, 1);
    stint_future_release(future);
}

static stint_future *combine(uint64_t *random, stint_future *first, unsigned depth)
{
    stint_future *members[2] = { first, submit_somehow(random, depth) };
    stint_future *both = NULL;
    if (first == NULL || members[1] == NULL)
        return members[first == NULL];
    if (random_below(random, 2) == 0)
        stint_when_any(members, 2, &both);
    else
        stint_when_all(members, 2, &both);
    stint_future_release(members[0]);
    stint_future_release(members[1]);
    return both;
}

static void have_child(uint64_t *random, unsigned depth)
{
    stint_guard guard;
    stint_mask();
    stint_future *future = submit_somehow(random, depth + 1);
    if (random_below(random, 3) == 0)
        future = combine(random, future, depth + 1);
    size_t way = random_below(random, 4);
    if (future != NULL && way == 0) {
        leave_to_callback(future);
        future = NULL;
    }
    stint_guard_push(&guard, release, future);
    stint_unmask();
    if (future != NULL && way > 1)
        wait_somehow(random, future);
    if (future != NULL && random_below(random, 3) == 0)
        stint_future_cancel(future);
    stint_guard_pop(&guard, true);
}

static void await_group(uint64_t *random)
{
    stint_guard guard;
    stint_future *idle = NULL;
    stint_mask();
    stint_group_when_idle(program.group, &idle);
    stint_guard_push(&guard, release, idle);
    stint_unmask();
    if (idle != NULL && random_below(random, 2) == 0)
        wait_somehow(random, idle);
    else
        stint_group_wait(program.group, NULL);
    stint_guard_pop(&guard, true);
}

static void lock(uint64_t *random)
{
    int error = stint_mutex_lock(&program.mutex);
    if (error == EOWNERDEAD)
        stint_mutex_consistent(&program.mutex);
    if (error != 0 && error != EOWNERDEAD)
        return;
    for (size_t i = random_below(random, 20); i > 0; i--)
        stint_free(keep(stint_malloc(64)));
    stint_mutex_unlock(&program.mutex);
}

static void act(uint64_t *random, unsigned depth)
{
    if (stint_is_interrupted() || atomic_load(&program.over))
        return;
    switch (depth < DEEPEST ? random_below(random, 10) : 6 + random_below(random, 4)) {
    case 0:
    case 1:
    case 2:
    case 3:
        have_child(random, depth);
        return;
    case 4:
    case 5:
        fork_parts(random, depth);
        return;
    case 6:
        stint_blocking_begin();
        nanosleep(&(struct timespec){ .tv_nsec = (long)random_below(random, 300000) }, NULL);
        stint_blocking_end();
        return;
    case 7:
        lock(random);
        return;
    case 8:
        if (random_below(random, 3) == 0)
            await_group(random);
        return;
    default:
        for (size_t i = random_below(random, 50); i > 0; i--)
            stint_free(keep(stint_malloc(random_size(random, 10))));
    }
}

/* --- Beginning and ending ----------------------------------------------------------------------------------------- */

static void begin(uint64_t *random)
{
    memset(&program, 0, sizeof program);
    for (int i = 0; i < POOLS; i++) {
        const stint_pool_options options = {
            .size = sizeof(stint_pool_options),
            .workers = draw_workers(random, 3),
            .substitutes = random_below(random, 3) == 0 ? STINT_NO_SUBSTITUTES : 3,
            .queue_capacity = (size_t)2 << random_below(random, 5),
        };
        assert_int_equal(stint_pool_create(&options, &program.pools[i]), 0);
        assert_int_equal(stint_serial_create(program.pools[i], 0, &program.serials[i]), 0);
    }
    const stint_account_limits limits = {
        .size = sizeof(stint_account_limits),
        .running = (unsigned)random_below(random, 2),
        .waiting = 4 * (unsigned)random_below(random, 2),
    };
    assert_int_equal(stint_account_create(NULL, &limits, &program.account), 0);
    assert_int_equal(stint_group_create(&program.group), 0);
    assert_int_equal(stint_mutex_init(&program.mutex), 0);
}

static void *cancel_some(void *arg)
{
    uint64_t random = (uintptr_t)arg;
    for (int i = 0; i < ROOTS && !atomic_load(&program.over); i++) {
        stint_future *root = program.roots[random_below(&random, ROOTS)];
        if (root != NULL)
            stint_future_cancel(root);
        if (random_below(&random, 8) == 0)
            stint_group_cancel(program.group);
        nanosleep(&(struct timespec){ .tv_nsec = (long)random_below(&random, 200000) }, NULL);
    }
    return NULL;
}

static void shut_down(uint64_t *random, stint_pool *pool)
{
    stint_shutdown how = random_below(random, 2) == 0 ? STINT_SHUTDOWN_CANCEL : STINT_SHUTDOWN_DRAIN_THEN_CANCEL;
    uint64_t time = how == STINT_SHUTDOWN_CANCEL ? PATIENCE : random_below(random, 3) * MS;
    int error = stint_pool_shutdown(pool, how, time);
    if (error == ETIMEDOUT)
        error = stint_pool_shutdown(pool, STINT_SHUTDOWN_CANCEL, PATIENCE);
    assert_int_equal(error, 0);
}

/* Everything has ended. */
static void look_at_what_is_left(void)
{
    stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
    assert_int_equal(atomic_load(&program.called), atomic_load(&program.expected));
    for (int i = 0; i < ROOTS; i++) {
        if (program.roots[i] != NULL)
            assert_int_equal(stint_future_wait_for(program.roots[i], 0, NULL), 0);
        stint_future_release(program.roots[i]);
    }
    assert_int_equal(stint_group_wait_for(program.group, 0, NULL), 0);
    stint_group_release(program.group);
    assert_int_equal(stint_account_read(program.account, &usage), 0);
    assert_int_equal(usage.running, 0);
    assert_int_equal(usage.waiting, 0);
    stint_account_release(program.account);
    assert_int_equal(stint_mutex_destroy(&program.mutex), 0);
}

static void run_once(uint64_t seed)
{
    uint64_t random = seed;
    pthread_t canceller;
    begin(&random);
    for (int i = 0; i < ROOTS; i++) {
        program.roots[i] = submit_somehow(&random, 0);
        if (program.roots[i] != NULL && random_below(&random, 4) == 0)
            program.roots[i] = combine(&random, program.roots[i], 0);
    }
    assert_int_equal(pthread_create(&canceller, NULL, cancel_some, pack(random_next(&random), 0)), 0);
    nanosleep(&(struct timespec){ .tv_nsec = (long)random_below(&random, 3000000) }, NULL);
    for (int i = 0; i < POOLS; i++)
        shut_down(&random, program.pools[i]);
    atomic_store(&program.over, true);
    pthread_join(canceller, NULL);
    for (int i = 0; i < POOLS; i++) {
        bool before = random_below(&random, 2) == 0;
        if (before)
            stint_serial_release(program.serials[i]);
        assert_int_equal(stint_pool_destroy(program.pools[i]), 0);
        if (!before)
            stint_serial_release(program.serials[i]);
    }
    look_at_what_is_left();
}

TEST(a_pool_ends_in_the_midst_of_everything)
{
    uint64_t random = first_seed;
    uint64_t end = now_ns() + seconds * 1000 * MS;
    unsigned rounds = 0;
    while (now_ns() < end) {
        uint64_t seed = random_next(&random);
        run_once(seed);
        rounds++;
    }
    print_message("%u rounds\n", rounds);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        seconds = repeats((unsigned)atoi(argv[1]));
    first_seed = argc > 2 ? strtoull(argv[2], NULL, 10) : now_ns();
    print_message("seed %llu\n", (unsigned long long)first_seed);
    return run_all_tests(NULL, NULL);
}
