/* SPDX-License-Identifier: MIT
 *
 * A random program over three pools: forks, waits of all kinds, blocking regions, accounts in accounts with limits on
 * running and waiting tasks, priorities, cancellations, time-outs, limits, tasks delayed until a time, a future or a
 * turn, a group, and waits for futures picked at random, which close circles. In half of the programs tasks lock, too,
 * and each has a deadline, which ends what no rule promises to end; in the other half there is neither. Whatever a
 * program does, each wait ends or is told, so every task resolves; no task waits for long while a worker is idle; and
 * nothing is left.
 *
 * random_pools [STEPS [SEED [OPEN]]]. OPEN, anything: only programs without locks and deadlines. The seed is printed;
 * the order of events is the machine's. */
#include "random_parts.h"
#include "random_program.h"
#include "repeats.h"

#define STEPS_IN_ALL 10000
#define STEPS_OF_ONE 50000 /* at most */

static unsigned long steps;
static bool only_open;
static uint64_t first_seed;

/* --- What a task does --------------------------------------------------------------------------------------------- */

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
    if (random_below(random, 8) == 0)
        options.budget.wall_ns = (1 + random_below(random, 100)) * MS;
    else if (program.locks)
        options.budget.wall_ns = DEADLINE;
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
    if (error == EDEADLK || error == EAGAIN)
        atomic_fetch_add_explicit(&program.told[error == EAGAIN], 1, memory_order_relaxed);
}

static int wait_in_a_way(uint64_t *random, stint_future *future, size_t way)
{
    int error;
    switch (way) {
    case 0:
        return stint_future_wait_for(future, random_below(random, 30) * MS, NULL);
    case 1:
        return stint_future_wait_for(future, STINT_FOREVER, NULL);
    case 2:
        stint_blocking_begin();
        error = stint_future_wait(future, NULL);
        stint_blocking_end();
        return error;
    default:
        return stint_future_wait(future, NULL);
    }
}

static void wait_somehow(uint64_t *random, stint_future *future)
{
    static const char *const names[] = { "wait with a time", "wait for ever", "wait in a region", "wait", "wait" };
    size_t way = random_below(random, 5);
    stint_guard guard;
    stint_mask();
    stint_guard_push(&guard, forget_wait, note_wait(names[way], future));
    stint_unmask();
    note(wait_in_a_way(random, future, way));
    stint_guard_pop(&guard, true);
}

static int run_next(const stint_outcome *outcome, void *arg, void **value)
{
    (void)outcome;
    return run_child(arg, value);
}

/* Submits a task that follows a random future. */
static int submit_next(uint64_t *random, stint_pool *pool, void *arg, const stint_options *options,
                       stint_future **future)
{
    stint_future *before = pick(random);
    if (before == NULL)
        return EAGAIN;
    int error = stint_future_then_submit(before, pool, run_next, arg, options, future);
    stint_future_release(before);
    return error;
}

/* The task is then masked until it has a guard for the future: submission takes several steps, and the end of the
 * mask is a sample point. */
static int submit_somehow(uint64_t *random, void *arg, const stint_options *options, stint_future **future)
{
    size_t which = random_below(random, POOLS);
    stint_pool *pool = program.pools[which];
    size_t how = random_below(random, 12);
    uint64_t time = random_below(random, 50) * MS;
    int error;
    if (how < 3) {
        error = stint_submit_wait(pool, run_child, arg, options, time, future);
        stint_mask();
        return error;
    }
    stint_mask();
    switch (how) {
    case 3:
        return stint_serial_submit(program.serials[which], run_child, arg, options, future);
    case 4:
        return stint_submit_at(pool, run_child, arg, options, now_ns() + time / 10, future);
    case 5:
        return submit_next(random, pool, arg, options, future);
    case 6:
        error = stint_submit(pool, run_child, arg, options, future);
        if (error == 0)
            stint_group_add(program.group, *future);
        return error;
    default:
        return stint_submit(pool, run_child, arg, options, future);
    }
}

static stint_future *submit_child(uint64_t *random, unsigned depth)
{
    stint_options options = random_options(random);
    stint_future *future = NULL;
    int error = submit_somehow(random, pack(random_next(random), depth + 1), &options, &future);
    return error == 0 ? future : NULL;
}

static void have_child(uint64_t *random, unsigned depth)
{
    stint_guard guard;
    stint_future *future = submit_child(random, depth);
    stint_guard_push(&guard, release, future);
    stint_unmask();
    if (future == NULL) {
        stint_guard_pop(&guard, false);
        return;
    }
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

static void await_the_group(uint64_t *random)
{
    stint_guard guard;
    stint_future *idle = NULL;
    stint_mask();
    if (random_below(random, 2) == 0) {
        stint_guard_push(&guard, forget_wait, note_wait("wait for the group", NULL));
        stint_unmask();
        note(stint_group_wait(program.group, NULL));
        stint_guard_pop(&guard, true);
        return;
    }
    stint_group_when_idle(program.group, &idle);
    stint_guard_push(&guard, release, idle);
    stint_unmask();
    if (idle != NULL)
        wait_somehow(random, idle);
    stint_guard_pop(&guard, true);
}

static void act(uint64_t *random, unsigned depth)
{
    if (stint_is_interrupted() || atomic_load(&program.over))
        return;
    atomic_fetch_add_explicit(&program.steps, 1, memory_order_relaxed);
    size_t what = depth < DEEPEST ? random_below(random, 10) : 5 + random_below(random, 5);
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
        if (program.locks)
            lock_some(random);
        return;
    case 7:
        await_anybody(random);
        return;
    case 8:
        if (random_below(random, 4) == 0)
            await_the_group(random);
        return;
    default:
        compute(random);
    }
}

/* --- The machine -------------------------------------------------------------------------------------------------- */

/* A thread that only sleeps: if it is late, or others have the processors, a woken worker may be late too, and its
 * wait says nothing about the pool. */
static atomic_ullong latest_ns;

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

/* Processor time that the rest of this machine has used, and that its host took away. To 10 ms. */
static uint64_t taken_by_others(void)
{
    unsigned long long ticks[8] = { 0 };
    struct timespec own;
    FILE *file = fopen("/proc/stat", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &ticks[0], &ticks[1], &ticks[2],
                            &ticks[3], &ticks[4], &ticks[5], &ticks[6], &ticks[7]),
                     8);
    fclose(file);
    unsigned long long idle = ticks[3] + ticks[4], sum = 0;
    for (int i = 0; i < 8; i++)
        sum += ticks[i];
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
    uint64_t all = (sum - idle) * (1000 / (unsigned long)sysconf(_SC_CLK_TCK)) * MS;
    return all - ((uint64_t)own.tv_sec * 1000 * MS + (uint64_t)own.tv_nsec);
}

struct machine {
    uint64_t others;
    unsigned windows;
    unsigned starved; /* of these: they do not count */
    unsigned wrong;
    uint64_t neglected; /* so far */
};

static uint64_t neglected(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < POOLS; i++) {
        stint_pool_statistics statistics = STINT_POOL_STATISTICS_INIT;
        assert_int_equal(stint_pool_read(program.pools[i], &statistics), 0);
        sum += statistics.neglected;
    }
    return sum;
}

/* A task that was neglected in this window may have begun to wait in the one before. */
static void look(struct machine *machine)
{
    static bool before = true;
    uint64_t sum = neglected();
    uint64_t others = taken_by_others();
    bool starved = atomic_exchange(&latest_ns, 0) > STINT_NEGLECT_NS / 8 ||
                   (int64_t)(others - machine->others) > (int64_t)(30 * MS);
    machine->others = others;
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
        stint_unmask();
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
        else
            print_error("nobody ends %p\n", (void *)before);
    }
    return hangs ? arg : NULL;
}

static bool run_program(uint64_t *random, bool locks, unsigned long most, struct machine *machine)
{
    pthread_t drivers[DRIVERS];
    uint64_t seeds[DRIVERS];
    pthread_t reference;
    bool hangs = false;
    make_program(random, locks);
    machine->neglected = 0;
    for (int i = 0; i < DRIVERS; i++) {
        seeds[i] = random_next(random);
        assert_int_equal(pthread_create(&drivers[i], NULL, drive, &seeds[i]), 0);
    }
    assert_int_equal(pthread_create(&reference, NULL, refer, NULL), 0);
    for (uint64_t end = now_ns() + PATIENCE; now_ns() < end && atomic_load(&program.steps) < most;) {
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

static void run_programs(unsigned long most_of_all, bool locks)
{
    uint64_t random = first_seed;
    struct machine machine = { .windows = 0 };
    unsigned long done = 0, tasks = 0, told[2] = { 0 };
    print_message("seed %llu\n", (unsigned long long)random);
    while (done < most_of_all) {
        uint64_t seed = random;
        unsigned long most = 1000 + random_below(&random, STEPS_OF_ONE - 1000);
        bool ended = run_program(&random, locks, most < most_of_all - done ? most : most_of_all - done, &machine);
        if (!ended || machine.wrong > 0)
            print_error("in the program of %llu\n", (unsigned long long)seed);
        if (!ended)
            tell_waits();
        assert_true(ended);
        assert_int_equal(machine.wrong, 0);
        done += atomic_load(&program.steps);
        tasks += atomic_load(&program.tasks);
        told[0] += atomic_load(&program.told[0]);
        told[1] += atomic_load(&program.told[1]);
        end_program();
    }
    print_message("%lu steps of %lu tasks, %lu circles found, %lu waits given up; %u of %u tenths of a second did not "
                  "count\n",
                  done, tasks, told[0], told[1], machine.starved, machine.windows);
    assert_true(tasks > 0);
}

TEST(whatever_a_program_with_deadlines_does_its_tasks_end_and_no_worker_is_idle_beside_them)
{
    if (!only_open)
        run_programs(steps / 2, true);
}

TEST(whatever_a_program_does_its_waits_end_or_are_told_and_no_worker_is_idle_beside_them)
{
    run_programs(only_open ? steps : steps / 2, false);
}

int main(int argc, char **argv)
{
    steps = repeats(argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : STEPS_IN_ALL);
    first_seed = argc > 2 ? strtoull(argv[2], NULL, 10) : now_ns();
    only_open = argc > 3;
    return run_all_tests(NULL, NULL);
}
