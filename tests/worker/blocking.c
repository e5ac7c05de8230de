/* SPDX-License-Identifier: MIT
 *
 * Blocking regions: a spare takes the place of a task that sleeps, no more of them than there may be, and gives it
 * back; and regions that are nested, left open, interrupted or nobody's. */
#include "executor/pool/pool.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include "pools.h"

static unsigned active(stint_pool *pool)
{
    return atomic_load(&pool->substitutes.active);
}

/* Until nobody stands in for anybody: then each worker has its place again. */
static void assert_all_in_their_places(stint_pool *pool)
{
    while (read_pool(pool).substituting > 0)
        gate_nap();
    assert_int_equal(active(pool), stint_pool_workers(pool));
    assert_int_equal(pool->substitutes.asleep, 0);
}

struct sleep {
    struct gate asleep, awake;
    stint_pool *pool;
    unsigned active;
    int error;
};

static int sleep_and_wake(void *arg, void **value)
{
    struct sleep *sleep = arg;
    stint_blocking_begin();
    gate_hold(&sleep->asleep, value);
    stint_blocking_end();
    return gate_hold(&sleep->awake, value);
}

TEST(a_spare_takes_the_place_of_a_task_that_sleeps)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct sleep sleep = { 0 };
    stint_future *sleeper = submit(pool, sleep_and_wake, &sleep, NULL);
    gate_await(&sleep.asleep, 1);
    for (int i = 0; i < 50; i++)
        assert_int_equal(take(submit(pool, do_nothing, NULL, NULL)).status, STINT_OK);
    assert_int_equal(read_pool(pool).substituting, 1);
    gate_open(&sleep.asleep);
    gate_open(&sleep.awake);
    assert_int_equal(take(sleeper).status, STINT_OK);
    assert_all_in_their_places(pool);
    assert_int_equal(read_pool(pool).substitutes, 1);
    assert_int_equal(read_pool(pool).replaced, 1);
    stint_worker_statistics spare = STINT_WORKER_STATISTICS_INIT;
    assert_int_equal(stint_pool_read_worker(pool, 1, &spare), 0);
    assert_int_equal(spare.tasks, 50);
    assert_int_equal(stint_pool_read_worker(pool, 2, &spare), EINVAL);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static void have_all_sleep_at_once(stint_pool *pool, unsigned count)
{
    struct sleep sleep = { 0 };
    stint_future *sleepers[16];
    gate_open(&sleep.awake);
    for (unsigned i = 0; i < count; i++)
        sleepers[i] = submit(pool, sleep_and_wake, &sleep, NULL);
    gate_await(&sleep.asleep, count);
    gate_open(&sleep.asleep);
    for (unsigned i = 0; i < count; i++)
        assert_ok(take_in_time(sleepers[i]));
}

/* And their slots are used again, with their numbers. */
TEST(spares_that_nobody_needs_for_long_end)
{
    stint_pool *pool = make_pool(.workers = 1, .substitutes = 16);
    have_all_sleep_at_once(pool, 1);
    for (int round = 0; round < 2; round++) {
        have_all_sleep_at_once(pool, 12);
        unsigned at_once = threads_of_the_process();
        assert_true(at_once > 12);
        for (int i = 0; i < 3000 && threads_of_the_process() > at_once - 11; i++)
            nap_ms(10);
        assert_in_range(threads_of_the_process(), 1, at_once - 11);
        assert_in_range(read_pool(pool).substitutes, 11, 12);
    }
    assert_ok(take_in_time(submit(pool, do_nothing, NULL, NULL)));
    uint64_t tasks = 0;
    for (unsigned i = 0; i <= read_pool(pool).substitutes; i++) {
        stint_worker_statistics worker = STINT_WORKER_STATISTICS_INIT;
        assert_int_equal(stint_pool_read_worker(pool, i, &worker), 0);
        tasks += worker.tasks;
    }
    assert_int_equal(tasks, 1 + 12 + 12 + 1);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static atomic_bool helped;

static int note_help(void *arg, void **value)
{
    (void)arg;
    (void)value;
    atomic_store(&helped, true);
    return 0;
}

/* A spare takes its fork while it sleeps in a region; then the task goes on, and the spare is not needed any more. */
static int be_helped_and_go_on(void *arg, void **value)
{
    stint_subtask subtask;
    (void)value;
    stint_fork(&subtask, note_help, NULL);
    stint_blocking_begin();
    while (!atomic_load(&helped))
        nap_ms(1);
    stint_blocking_end();
    uint64_t before = process_time_ns();
    nap_ms(2500);
    *(uint64_t *)arg = process_time_ns() - before;
    return stint_join(&subtask, NULL);
}

TEST(a_spare_that_has_helped_a_task_which_goes_on_takes_no_processor_time)
{
    stint_pool *pool = make_pool(.workers = 1, .substitutes = 1);
    uint64_t used = 0;
    assert_ok(take_in_time(submit(pool, be_helped_and_go_on, &used, NULL)));
    assert_true(atomic_load(&helped));
    assert_in_range(used, 0, 500000000);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(spares_are_used_again)
{
    stint_pool *pool = make_pool(.workers = 2);
    for (int i = 0; i < 200; i++) {
        struct sleep sleeps[2] = { 0 };
        stint_future *sleepers[2];
        for (int k = 0; k < 2; k++) {
            sleepers[k] = submit(pool, sleep_and_wake, &sleeps[k], NULL);
            gate_open(&sleeps[k].awake);
        }
        for (int k = 0; k < 2; k++)
            gate_await(&sleeps[k].asleep, 1);
        assert_int_equal(take(submit(pool, do_nothing, NULL, NULL)).status, STINT_OK);
        for (int k = 0; k < 2; k++)
            gate_open(&sleeps[k].asleep);
        for (int k = 0; k < 2; k++)
            assert_int_equal(take(sleepers[k]).status, STINT_OK);
        assert_all_in_their_places(pool);
    }
    assert_true(read_pool(pool).substitutes <= 2);
    assert_int_equal(read_pool(pool).replaced, 400);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* As many may sleep as there are workers and substitutes; the next task has to wait for one of them. */
TEST(there_are_no_more_spares_than_allowed)
{
    static const unsigned substitutes[] = { 1, 2, STINT_NO_SUBSTITUTES };
    for (int i = 0; i < 3; i++) {
        stint_pool *pool = make_pool(.workers = 1, .substitutes = substitutes[i]);
        unsigned allowed = substitutes[i] == STINT_NO_SUBSTITUTES ? 0 : substitutes[i];
        struct sleep sleeps[3] = { 0 };
        stint_future *sleepers[3];
        for (unsigned k = 0; k <= allowed; k++)
            sleepers[k] = submit(pool, sleep_and_wake, &sleeps[k], NULL);
        for (unsigned k = 0; k <= allowed; k++)
            gate_await(&sleeps[k].asleep, 1);
        stint_future *next = submit(pool, do_nothing, NULL, NULL);
        assert_int_equal(stint_future_wait_for(next, 3000000, NULL), ETIMEDOUT);
        assert_int_equal(read_pool(pool).substitutes, allowed);
        assert_int_equal(read_pool(pool).unreplaced, 1);
        assert_int_equal(active(pool), 0);
        for (unsigned k = 0; k <= allowed; k++) {
            gate_open(&sleeps[k].awake);
            gate_open(&sleeps[k].asleep);
        }
        assert_int_equal(take(next).status, STINT_OK);
        for (unsigned k = 0; k <= allowed; k++)
            assert_int_equal(take(sleepers[k]).status, STINT_OK);
        assert_all_in_their_places(pool);
        assert_int_equal(stint_pool_destroy(pool), 0);
    }
}

/* No stack that a thread may have left behind is as large. */
#define STACK (256 * MIB)

/* So that no address space is left for such a stack. */
static void let_threads_fail(bool fail)
{
    unsigned long pages;
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu", &pages), 1);
    fclose(file);
    struct rlimit limit = { .rlim_max = RLIM_INFINITY };
    limit.rlim_cur = fail ? pages * (rlim_t)sysconf(_SC_PAGESIZE) + STACK / 2 : RLIM_INFINITY;
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    void *stack = mmap(NULL, STACK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack != MAP_FAILED)
        munmap(stack, STACK);
    if (fail && stack != MAP_FAILED)
        skip(); /* qemu limits no address space */
}

/* The first sleeper gets no substitute. The other worker looks for tasks everywhere meanwhile. */
TEST(a_substitute_whose_thread_could_not_be_started_is_started_later)
{
    stint_pool *pool = make_pool(.workers = 2, .substitutes = 1, .stack_size = STACK);
    for (int i = 0; i < 50; i++) {
        struct sleep sleeps[2] = { 0 };
        let_threads_fail(true);
        stint_future *first = submit(pool, sleep_and_wake, &sleeps[0], NULL);
        gate_await(&sleeps[0].asleep, 1);
        assert_int_equal(take(submit(pool, do_nothing, NULL, NULL)).status, STINT_OK);
        if (i == 0)
            assert_int_equal(read_pool(pool).unreplaced, 1);
        let_threads_fail(false);
        stint_future *second = submit(pool, sleep_and_wake, &sleeps[1], NULL);
        gate_await(&sleeps[1].asleep, 1);
        assert_int_equal(take(submit(pool, do_nothing, NULL, NULL)).status, STINT_OK);
        for (int k = 0; k < 2; k++) {
            gate_open(&sleeps[k].asleep);
            gate_open(&sleeps[k].awake);
        }
        assert_int_equal(take(first).status, STINT_OK);
        assert_int_equal(take(second).status, STINT_OK);
    }
    assert_int_equal(read_pool(pool).substitutes, 1);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(a_pool_ends_whose_substitute_never_had_a_thread)
{
    stint_pool *pool = make_pool(.workers = 1, .substitutes = 2, .stack_size = STACK);
    struct sleep sleep = { 0 };
    let_threads_fail(true);
    stint_future *sleeper = submit(pool, sleep_and_wake, &sleep, NULL);
    gate_await(&sleep.asleep, 1);
    gate_open(&sleep.asleep);
    gate_open(&sleep.awake);
    assert_int_equal(take(sleeper).status, STINT_OK);
    assert_int_equal(stint_pool_destroy(pool), 0);
    let_threads_fail(false);
}

/* A task that comes back goes on at once, beside the spare's; but then nothing is begun before one place is free. */
TEST(nothing_is_begun_while_as_many_run_as_there_are_workers)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct sleep sleep = { 0 };
    struct gate first = { 0 }, second = { 0 };
    stint_future *sleeper = submit(pool, sleep_and_wake, &sleep, NULL);
    gate_await(&sleep.asleep, 1);
    stint_future *on_spare = submit(pool, gate_hold, &first, NULL);
    gate_await(&first, 1);
    gate_open(&sleep.asleep);
    gate_await(&sleep.awake, 1); /* both run */
    stint_future *next = submit(pool, gate_hold, &second, NULL);
    gate_open(&first);
    assert_int_equal(take(on_spare).status, STINT_OK);
    while (read_pool(pool).substituting > 0) /* the spare has gone to sleep, although a task is queued */
        gate_nap();
    assert_int_equal(atomic_load(&second.entered), 0);
    gate_open(&sleep.awake);
    assert_int_equal(take(sleeper).status, STINT_OK);
    gate_open(&second);
    assert_int_equal(take(next).status, STINT_OK);
    assert_all_in_their_places(pool);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* What a spare's task has submitted, and it leaves behind when it goes to sleep, is run by the others. */
static int submit_two(void *arg, void **value)
{
    struct sleep *sleep = arg;
    (void)value;
    stint_future *future;
    for (int i = 0; i < 2; i++) {
        sleep->error = stint_submit(sleep->pool, gate_hold, &sleep->awake, NULL, &future);
        if (sleep->error == 0)
            stint_future_release(future);
    }
    return gate_hold(&sleep->asleep, value);
}

TEST(tasks_in_the_deque_of_a_spare_that_retires_are_run)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct sleep sleep = { .pool = pool }, child = { .pool = pool };
    stint_future *sleeper = submit(pool, sleep_and_wake, &sleep, NULL);
    gate_await(&sleep.asleep, 1);
    stint_future *parent = submit(pool, submit_two, &child, NULL);
    gate_await(&child.asleep, 1);
    gate_open(&sleep.asleep);
    gate_await(&sleep.awake, 1);
    gate_open(&child.awake);
    gate_open(&child.asleep);
    assert_int_equal(take(parent).status, STINT_OK);
    assert_int_equal(child.error, 0);
    gate_open(&sleep.awake);
    assert_int_equal(take(sleeper).status, STINT_OK);
    gate_await(&child.awake, 2);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

/* --- Odd regions -------------------------------------------------------------------------------------------------- */

static int odd_regions(void *arg, void **value)
{
    unsigned *seen = arg;
    (void)value;
    (void)value;
    stint_blocking_end(); /* without a begin */
    stint_blocking_begin();
    stint_blocking_begin();
    stint_blocking_end();
    *seen = 1;
    stint_blocking_end();
    stint_blocking_end();
    return 0;
}

TEST(regions_outside_of_a_pool_do_nothing)
{
    unsigned seen = 0;
    stint_outcome outcome;
    stint_blocking_end();
    stint_blocking_begin();
    stint_blocking_end();
    assert_int_equal(stint_run(odd_regions, &seen, NULL, &outcome), 0);
    assert_int_equal(outcome.status, STINT_OK);
    assert_int_equal(seen, 1);
}

struct watched {
    stint_pool *pool;
    unsigned asleep[8];
    unsigned count;
    int error;
    stint_future *future;
    stint_outcome inner;
};

static void look(struct watched *watched)
{
    watched->asleep[watched->count++] = watched->pool->substitutes.asleep;
}

static int leave_region_open(void *arg, void **value)
{
    struct watched *watched = arg;
    (void)value;
    stint_blocking_end(); /* the outer scope's region is not this one's to end */
    look(watched);
    stint_blocking_begin();
    look(watched);
    while (watched->error == 0 && !stint_is_interrupted())
        stint_free(stint_malloc(1000));
    return watched->error;
}

static int nested_regions(void *arg, void **value)
{
    struct watched *watched = arg;
    (void)value;
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = 10000;
    stint_blocking_end();
    look(watched); /* 0 */
    stint_run(leave_region_open, watched, &options, &watched->inner);
    look(watched); /* 0: the scope has closed it */
    stint_blocking_begin();
    stint_blocking_begin();
    stint_run(leave_region_open, watched, &options, &watched->inner);
    stint_blocking_end();
    look(watched); /* 1: the outer pair's */
    stint_blocking_end();
    look(watched); /* 0 */
    stint_blocking_begin();
    return 0; /* open */
}

TEST(a_region_ends_with_its_scope_however_that_ends)
{
    static const stint_reason reasons[] = { STINT_REASON_ALLOCATION_LIMIT, STINT_REASON_FAILED };
    for (int i = 0; i < 2; i++) {
        struct watched watched = { .pool = make_pool(.workers = 1), .error = i == 0 ? 0 : EIO };
        assert_int_equal(take(submit(watched.pool, nested_regions, &watched, NULL)).status, STINT_OK);
        static const unsigned expected[] = { 0, 0, 1, 0, 1, 1, 1, 0 };
        assert_int_equal(watched.inner.reason, reasons[i]);
        assert_int_equal(watched.count, 8);
        assert_memory_equal(watched.asleep, expected, sizeof expected);
        assert_all_in_their_places(watched.pool);
        assert_int_equal(stint_pool_destroy(watched.pool), 0);
    }
}

static int sleep_for_ever(void *arg, void **value)
{
    struct gate *gate = arg;
    (void)value;
    stint_blocking_begin();
    atomic_fetch_add(&gate->entered, 1);
    while (!stint_is_interrupted()) {
        gate_nap();
        stint_checkpoint();
    }
    return 0;
}

TEST(a_task_that_is_interrupted_in_its_region_gives_the_place_back)
{
    static const stint_on_interrupt modes[] = { STINT_JUMP, STINT_FAIL, STINT_UNWIND };
    stint_pool *pool = make_pool(.workers = 1, .substitutes = 1);
    for (int i = 0; i < 30; i++) {
        struct gate gate = { 0 };
        stint_options options = STINT_OPTIONS_INIT;
        options.on_interrupt = modes[i % 3];
        options.preemptible = i % 2 == 0;
        stint_future *future = submit(pool, sleep_for_ever, &gate, &options);
        gate_await(&gate, 1);
        assert_int_equal(take(submit(pool, do_nothing, NULL, NULL)).status, STINT_OK);
        stint_future_cancel(future);
        assert_int_equal(take(future).reason, STINT_REASON_TOKEN);
        assert_all_in_their_places(pool);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
}

struct due {
    struct gate gate;
    bool reached;
};

static int end_region_when_due(void *arg, void **value)
{
    struct due *due = arg;
    stint_blocking_begin();
    gate_hold(&due->gate, value);
    stint_blocking_end();
    due->reached = true;
    return 0;
}

TEST(the_end_of_a_region_delivers_what_came_due_in_it)
{
    stint_pool *pool = make_pool(.workers = 1);
    struct due due = { 0 };
    stint_future *future = submit(pool, end_region_when_due, &due, NULL);
    gate_await(&due.gate, 1);
    stint_future_cancel(future);
    gate_open(&due.gate);
    assert_int_equal(take(future).reason, STINT_REASON_TOKEN);
    assert_false(due.reached);
    assert_all_in_their_places(pool);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static int note_asleep(void *arg, void **value)
{
    struct watched *watched = arg;
    (void)value;
    look(watched);
    return 0;
}

static int wait_in_region(void *arg, void **value)
{
    struct watched *watched = arg;
    (void)value;
    stint_future *child;
    stint_blocking_begin();
    watched->error = stint_submit(watched->pool, note_asleep, watched, NULL, &child);
    if (watched->error == 0) {
        watched->error = stint_future_wait(child, NULL);
        stint_future_release(child);
    }
    look(watched);
    stint_blocking_end();
    look(watched);
    return 0;
}

/* With no spare, the awaited task can only run on top of the region: and is no sleeper. */
TEST(a_task_that_is_run_on_top_of_a_region_is_awake)
{
    struct watched watched = { .pool = make_pool(.workers = 1, .substitutes = STINT_NO_SUBSTITUTES) };
    assert_int_equal(take(submit(watched.pool, wait_in_region, &watched, NULL)).status, STINT_OK);
    static const unsigned expected[] = { 0, 1, 0 };
    assert_int_equal(watched.error, 0);
    assert_int_equal(watched.count, 3);
    assert_memory_equal(watched.asleep, expected, sizeof expected);
    assert_int_equal(stint_pool_destroy(watched.pool), 0);
}

/* --- The end ------------------------------------------------------------------------------------------------------ */

TEST(a_pool_with_spares_in_every_state_can_be_shut_down)
{
    for (int round = 0; round < 60; round++) {
        stint_pool *pool = make_pool(.workers = 2);
        struct sleep sleeps[4] = { 0 };
        stint_future *sleepers[4];
        for (int i = 0; i < 4; i++)
            sleepers[i] = submit(pool, sleep_and_wake, &sleeps[i], NULL);
        for (int i = 0; i < 4; i++)
            gate_await(&sleeps[i].asleep, 1);
        for (int i = 0; i < round % 4; i++) {
            gate_open(&sleeps[i].asleep);
            gate_open(&sleeps[i].awake);
        }
        if (round % 5 == 0)
            take(submit(pool, do_nothing, NULL, NULL));
        static const stint_shutdown ways[] = { STINT_SHUTDOWN_DRAIN, STINT_SHUTDOWN_CANCEL };
        assert_int_equal(stint_pool_shutdown(pool, ways[round / 4 % 2], 0), ETIMEDOUT);
        for (int i = 0; i < 4; i++) {
            gate_open(&sleeps[i].awake);
            gate_open(&sleeps[i].asleep);
        }
        assert_int_equal(stint_pool_destroy(pool), 0);
        for (int i = 0; i < 4; i++)
            stint_future_release(sleepers[i]);
    }
}

struct storm {
    stint_pool *pool;
    atomic_uint ran;
    _Atomic uint64_t random;
};

static int sleep_now_and_then(void *arg, void **value)
{
    struct storm *storm = arg;
    (void)value;
    uint64_t random = atomic_fetch_add(&storm->random, UINT64_C(0x9e3779b97f4a7c15)) >> 40;
    stint_future *child = NULL;
    if (random % 4 == 0 && stint_submit(storm->pool, do_nothing, NULL, NULL, &child) != 0)
        child = NULL;
    if (random % 3 == 0) {
        stint_blocking_begin();
        if (random % 2 == 0)
            gate_nap();
        if (random % 5 == 0)
            stint_future_wait(child, NULL);
        stint_blocking_end();
    }
    if (random % 7 == 0)
        stint_future_wait_for(child, 20000, NULL);
    stint_future_release(child);
    atomic_fetch_add(&storm->ran, 1);
    return 0;
}

TEST(tasks_that_sleep_all_the_time_all_run)
{
    for (unsigned workers = 1; workers <= 3; workers++) {
        struct storm storm = { .pool = make_pool(.workers = workers, .substitutes = workers) };
        for (int i = 0; i < 3000; i++)
            stint_future_release(submit(storm.pool, sleep_now_and_then, &storm, NULL));
        while (atomic_load(&storm.ran) < 3000)
            gate_nap();
        assert_all_in_their_places(storm.pool);
        assert_true(read_pool(storm.pool).substitutes <= workers);
        assert_int_equal(stint_pool_destroy(storm.pool), 0);
    }
}

TEST(more_spares_than_there_may_be_are_refused)
{
    stint_pool *pool = NULL;
    const stint_pool_options options = { .size = sizeof(stint_pool_options),
                                         .workers = 1,
                                         .substitutes = STI_SUBSTITUTES_MAX + 1 };
    assert_int_equal(stint_pool_create(&options, &pool), EINVAL);
    assert_null(pool);
}

TEST_MAIN()
