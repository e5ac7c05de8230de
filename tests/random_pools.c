/* SPDX-License-Identifier: MIT
 *
 * A random program over two pools: forks, waits of all kinds, blocking regions, accounts, priorities, locks, cancellations,
 * time-outs, limits, and waits for futures picked at random, which close circles. Whatever it does, every task resolves,
 * and no task waits for long while a worker is idle.
 *
 * random_pools [SECONDS [SEED]]. The seed is told when something is wrong; the order of events is the machine's. */
#include <pthread.h>
#include <sched.h>

#include "gate.h"
#include "pools.h"

#define POOLS 2
#define ACCOUNTS 4
#define MUTEXES 3
#define SHOWN 64 /* futures that anybody may wait for */
#define DRIVERS 12
#define PATIENCE (60000 * MS)
#define DEADLINE (300 * MS) /* of every task: what no other way out ends */
#define DEEPEST 4

static unsigned seconds = 4;
static uint64_t first_seed;

static struct program {
    stint_pool *pools[POOLS];
    stint_account *accounts[ACCOUNTS];
    stint_mutex mutexes[MUTEXES];
    pthread_mutex_t lock;
    stint_future *shown[SHOWN]; /* under the lock */
    atomic_bool over;
    atomic_ulong tasks;
    atomic_ulong deadlocks;
} program;

/* --- Futures that anybody may wait for ---------------------------------------------------------------------------- */

/* A future of its own that resolves with one of them. */
static stint_future *pick(uint64_t *random)
{
    stint_future *all = NULL;
    stint_mask();
    pthread_mutex_lock(&program.lock);
    stint_future *shown = program.shown[random_below(random, SHOWN)];
    if (shown != NULL && stint_when_all(&shown, 1, &all) != 0)
        all = NULL;
    pthread_mutex_unlock(&program.lock);
    stint_unmask();
    return all;
}

/* Show it in the place of another, which is returned. */
static stint_future *show(uint64_t *random, stint_future *future)
{
    size_t place = random_below(random, SHOWN);
    pthread_mutex_lock(&program.lock);
    stint_future *before = program.shown[place];
    program.shown[place] = future;
    pthread_mutex_unlock(&program.lock);
    return before;
}

/* --- What a task does --------------------------------------------------------------------------------------------- */

static void act(uint64_t *random, unsigned depth);

/* Seed and depth in one pointer: a child may outlive its parent. */
static void *pack(uint64_t seed, unsigned depth)
{
    return (void *)(uintptr_t)((seed & ~UINT64_C(15)) | depth);
}

static int run_child(void *arg, void **value)
{
    uint64_t random = (uintptr_t)arg;
    unsigned depth = (unsigned)(random & 15);
    (void)value;
    atomic_fetch_add_explicit(&program.tasks, 1, memory_order_relaxed);
    for (size_t actions = 1 + random_below(&random, 3); actions > 0; actions--)
        act(&random, depth);
    return 0;
}

static stint_options random_options(uint64_t *random)
{
    static const stint_on_interrupt ways[] = { STINT_JUMP, STINT_FAIL, STINT_UNWIND, STINT_JUMP };
    stint_options options = STINT_OPTIONS_INIT;
    options.on_interrupt = ways[random_below(random, 4)];
    options.budget.wall_ns = random_below(random, 8) == 0 ? (1 + random_below(random, 100)) * MS : DEADLINE;
    options.preemptible = random_below(random, 8) == 0;
    if (random_below(random, 3) == 0)
        options.account = program.accounts[random_below(random, ACCOUNTS)];
    if (random_below(random, 6) == 0)
        options.priority = random_below(random, 2) == 0 ? STINT_PRIORITY_HIGH : STINT_PRIORITY_LOW;
    if (random_below(random, 10) == 0)
        options.budget.allocation = 100000;
    return options;
}

static void note(int error)
{
    if (error == EDEADLK)
        atomic_fetch_add_explicit(&program.deadlocks, 1, memory_order_relaxed);
}

static void wait_somehow(uint64_t *random, stint_future *future)
{
    switch (random_below(random, 4)) {
    case 0:
        note(stint_future_wait_for(future, random_below(random, 30) * MS, NULL));
        return;
    case 1:
        stint_blocking_begin();
        note(stint_future_wait(future, NULL));
        stint_blocking_end();
        return;
    default:
        note(stint_future_wait(future, NULL));
    }
}

static void release(void *future)
{
    stint_future_release(future);
}

static stint_future *submit_child(uint64_t *random, unsigned depth)
{
    stint_options options = random_options(random);
    stint_pool *pool = program.pools[random_below(random, POOLS)];
    void *arg = pack(random_next(random), depth + 1);
    stint_future *future = NULL;
    int error = random_below(random, 4) == 0
                    ? stint_submit_wait(pool, run_child, arg, &options, random_below(random, 50) * MS, &future)
                    : stint_submit(pool, run_child, arg, &options, &future);
    return error == 0 ? future : NULL;
}

static void have_child(uint64_t *random, unsigned depth)
{
    stint_guard guard;
    stint_future *future = submit_child(random, depth);
    if (future == NULL)
        return;
    stint_guard_push(&guard, release, future);
    if (random_below(random, 4) != 0)
        wait_somehow(random, future);
    if (random_below(random, 4) == 0)
        stint_future_cancel(future);
    stint_guard_pop(&guard, true);
}

static void have_children(uint64_t *random, unsigned depth)
{
    stint_future *futures[3];
    stint_future *both = NULL;
    stint_guard guard;
    size_t count = 0;
    stint_mask();
    for (size_t i = 0; i < 3; i++) {
        stint_options options = random_options(random);
        if (stint_submit(program.pools[random_below(random, POOLS)], run_child, pack(random_next(random), depth + 1),
                         &options, &futures[count]) == 0)
            count++;
    }
    if (count > 0 && random_below(random, 2) == 0)
        stint_when_any(futures, count, &both);
    else
        stint_when_all(futures, count, &both);
    for (size_t i = 0; i < count; i++)
        stint_future_release(futures[i]);
    stint_guard_push(&guard, release, both);
    stint_unmask();
    if (both != NULL)
        wait_somehow(random, both);
    stint_guard_pop(&guard, true);
}

struct part {
    uint64_t random;
    unsigned depth;
};

static int do_part(void *arg, void **value)
{
    struct part *part = arg;
    (void)value;
    act(&part->random, part->depth);
    return 0;
}

static void fork_parts(uint64_t *random, unsigned depth)
{
    struct part parts[3];
    stint_subtask forks[3];
    for (int i = 0; i < 3; i++) {
        parts[i] = (struct part){ random_next(random), depth + 1 };
        stint_fork(&forks[i], do_part, &parts[i]);
    }
    if (random_below(random, 2) == 0)
        act(random, depth + 1);
    for (int i = 3; i-- > 0;)
        stint_join(&forks[i], NULL);
}

static void do_input(uint64_t *random)
{
    stint_blocking_begin();
    nanosleep(&(struct timespec){ .tv_nsec = (long)random_below(random, 2000000) }, NULL);
    stint_blocking_end();
}

static void compute(uint64_t *random)
{
    for (size_t blocks = random_below(random, 50); blocks > 0; blocks--)
        stint_free(keep(stint_malloc(random_size(random, 10))));
}

/* In any order: two tasks may wait for each other like that, until a deadline. */
static void lock_some(uint64_t *random)
{
    for (int i = 0; i < 2; i++) {
        stint_mutex *mutex = &program.mutexes[random_below(random, MUTEXES)];
        int error = stint_mutex_lock(mutex);
        if (error == EOWNERDEAD)
            stint_mutex_consistent(mutex);
        if (error == 0 || error == EOWNERDEAD) {
            if (random_below(random, 2) == 0)
                compute(random);
            stint_mutex_unlock(mutex);
        }
    }
}

static void await_anybody(uint64_t *random)
{
    stint_guard guard;
    stint_mask();
    stint_future *future = pick(random);
    stint_guard_push(&guard, release, future);
    stint_unmask();
    if (future != NULL)
        wait_somehow(random, future);
    stint_guard_pop(&guard, true);
}

static void act(uint64_t *random, unsigned depth)
{
    if (stint_interrupted() || atomic_load(&program.over))
        return;
    size_t what = depth < DEEPEST ? random_below(random, 9) : 5 + random_below(random, 4);
    switch (what) {
    case 0:
    case 1:
        have_child(random, depth);
        return;
    case 2:
        have_children(random, depth);
        return;
    case 3:
    case 4:
        fork_parts(random, depth);
        return;
    case 5:
        do_input(random);
        return;
    case 6:
        lock_some(random);
        return;
    case 7:
        await_anybody(random);
        return;
    default:
        compute(random);
    }
}

/* --- The machine -------------------------------------------------------------------------------------------------- */

/* A thread that only sleeps: when it is late, so may be a worker that is woken, and who waits for that says nothing about
 * the pool. */
static atomic_ullong latest_ns;

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void *refer(void *unused)
{
    (void)unused;
    while (!atomic_load(&program.over)) {
        uint64_t begun = now_ns();
        nap_ms(2);
        uint64_t late = now_ns() - begun - 2 * MS;
        if (late > atomic_load(&latest_ns))
            atomic_store(&latest_ns, late);
    }
    return NULL;
}

struct machine {
    unsigned windows;
    unsigned starved; /* of these: they do not count */
    unsigned wrong;
    uint64_t neglected; /* so far */
};

static uint64_t neglected(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < POOLS; i++) {
        stint_pool_statistics statistics;
        assert_int_equal(stint_pool_read(program.pools[i], &statistics), 0);
        sum += statistics.neglected;
    }
    return sum;
}

/* What was neglected in a window may have begun to wait in the one before. */
static void look(struct machine *machine)
{
    static bool before = true;
    uint64_t sum = neglected();
    bool starved = atomic_exchange(&latest_ns, 0) > STINT_NEGLECT_NS / 8;
    machine->windows++;
    machine->starved += starved || before;
    machine->wrong += sum > machine->neglected && !starved && !before;
    machine->neglected = sum;
    before = starved;
}

/* --- The program -------------------------------------------------------------------------------------------------- */

static void *drive(void *arg)
{
    uint64_t random = *(uint64_t *)arg;
    bool hangs = false;
    while (!atomic_load(&program.over) && !hangs) {
        stint_future *future = submit_child(&random, 0);
        if (future == NULL) {
            nap_ms(1);
            continue;
        }
        stint_future *before = show(&random, future);
        if (before == NULL)
            continue;
        if (random_below(&random, 8) == 0)
            stint_future_cancel(before);
        hangs = stint_future_wait_for(before, PATIENCE, NULL) != 0;
        if (!hangs)
            stint_future_release(before);
    }
    return hangs ? arg : NULL;
}

static void make_program(uint64_t *random)
{
    static const unsigned spares[] = { 0, 0, 2, STINT_NO_SPARES };
    memset(&program, 0, sizeof program);
    pthread_mutex_init(&program.lock, NULL);
    for (int i = 0; i < POOLS; i++) {
        const stint_pool_options options = {
            .workers = (unsigned)(1 + random_below(random, 4)),
            .spares = spares[random_below(random, 4)],
            .queue_capacity = (size_t)1 << (4 + random_below(random, 6)),
        };
        assert_int_equal(stint_pool_create(&program.pools[i], &options), 0);
    }
    for (unsigned i = 0; i < ACCOUNTS; i++) {
        const stint_account_limits limits = { .running = i % 2 };
        stint_account *above = i == 3 ? program.accounts[1] : NULL;
        assert_int_equal(stint_account_create(&program.accounts[i], above, &limits), 0);
    }
    for (int i = 0; i < MUTEXES; i++)
        assert_int_equal(stint_mutex_init(&program.mutexes[i]), 0);
}

static void end_program(void)
{
    for (int i = 0; i < SHOWN; i++) {
        if (program.shown[i] == NULL)
            continue;
        assert_int_equal(stint_future_wait_for(program.shown[i], PATIENCE, NULL), 0);
        stint_future_release(program.shown[i]);
    }
    for (int i = 0; i < POOLS; i++)
        assert_int_equal(stint_pool_shutdown(program.pools[i], STINT_SHUTDOWN_DRAIN_THEN_CANCEL, PATIENCE), 0);
    for (int i = 0; i < POOLS; i++)
        assert_int_equal(stint_pool_destroy(program.pools[i]), 0);
    for (int i = 0; i < ACCOUNTS; i++) {
        stint_account_usage usage;
        assert_int_equal(stint_account_read(program.accounts[i], &usage), 0);
        assert_int_equal(usage.running, 0);
    }
    for (int i = ACCOUNTS; i-- > 0;)
        stint_account_release(program.accounts[i]);
    for (int i = 0; i < MUTEXES; i++)
        assert_int_equal(stint_mutex_destroy(&program.mutexes[i]), 0);
}

static bool run_program(uint64_t *random, unsigned ms, struct machine *machine)
{
    pthread_t drivers[DRIVERS];
    uint64_t seeds[DRIVERS];
    pthread_t reference;
    bool hangs = false;
    make_program(random);
    machine->neglected = 0;
    for (int i = 0; i < DRIVERS; i++) {
        seeds[i] = random_next(random);
        assert_int_equal(pthread_create(&drivers[i], NULL, drive, &seeds[i]), 0);
    }
    assert_int_equal(pthread_create(&reference, NULL, refer, NULL), 0);
    for (uint64_t end = now_ns() + ms * MS; now_ns() < end;) {
        nap_ms(100);
        look(machine);
    }
    atomic_store(&program.over, true);
    pthread_join(reference, NULL);
    for (int i = 0; i < DRIVERS; i++) {
        void *hanging;
        pthread_join(drivers[i], &hanging);
        hangs = hangs || hanging != NULL;
    }
    return !hangs;
}

static void whatever_a_program_does_its_tasks_resolve_and_no_worker_is_idle_beside_them(void **state)
{
    (void)state;
    uint64_t random = first_seed;
    struct machine machine = { .windows = 0 };
    unsigned long tasks = 0;
    unsigned long deadlocks = 0;
    for (unsigned left = seconds; left > 0;) {
        unsigned now = left > 10 ? 10 : left > 2 ? 2 : left;
        uint64_t seed = random;
        bool ended = run_program(&random, now * 1000, &machine);
        if (!ended || machine.wrong > 0)
            print_error("seed %llu\n", (unsigned long long)seed);
        assert_true(ended);
        assert_int_equal(machine.wrong, 0);
        tasks += atomic_load(&program.tasks);
        deadlocks += atomic_load(&program.deadlocks);
        end_program();
        left -= now;
    }
    print_message("%lu tasks, %lu circles found; %u of %u tenths of a second did not count\n", tasks, deadlocks,
                  machine.starved, machine.windows);
    assert_true(tasks > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_a_program_does_its_tasks_resolve_and_no_worker_is_idle_beside_them),
    };
    if (argc > 1)
        seconds = (unsigned)atoi(argv[1]);
    first_seed = argc > 2 ? strtoull(argv[2], NULL, 10) : now_ns();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
