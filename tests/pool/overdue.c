/* SPDX-License-Identifier: MIT
 *
 * Tasks that nothing ends: they are reported, the pool goes on without their workers, and can be left to them. */
#include "pools.h"

/* --- What is told ------------------------------------------------------------------------------------------------- */

struct told {
    atomic_uint count;
    char name[STINT_NAME_SIZE];
    char account[32];
    stint_overdue_report report;
    stint_task_view task; /* that it points to, while it is told */
};

static void note(const stint_overdue_report *report, void *arg)
{
    struct told *told = arg;
    told->report = *report;
    told->task = *report->task;
    snprintf(told->name, sizeof told->name, "%s", report->task->name != NULL ? report->task->name : "-");
    snprintf(told->account, sizeof told->account, "%s", report->task->account != NULL ? report->task->account : "-");
    atomic_fetch_add(&told->count, 1);
}

static void await(atomic_uint *number, unsigned count)
{
    while (atomic_load(number) < count)
        gate_nap();
}

static stint_pool *make_watched_pool(unsigned workers, unsigned substitutes, struct told *told)
{
    stint_pool *pool;
    const stint_pool_options options = { .size = sizeof(stint_pool_options),
                                         .workers = workers,
                                         .substitutes = substitutes,
                                         .overdue_ns = 5 * MS,
                                         .on_overdue = note,
                                         .overdue_arg = told };
    memset(told, 0, sizeof *told);
    assert_int_equal(stint_pool_create(&options, &pool), 0);
    return pool;
}

static stint_future *submit_with(stint_pool *pool, stint_fn *fn, void *arg, stint_options options)
{
    stint_future *future;
    assert_int_equal(stint_submit(pool, fn, arg, &options, &future), 0);
    return future;
}

/* --- Tasks that nothing ends -------------------------------------------------------------------------------------- */

static int loop_without_sample_points(void *arg, void **value)
{
    struct gate *gate = arg;
    (void)value;
    atomic_fetch_add(&gate->entered, 1);
    while (!atomic_load(&gate->open))
        ;
    return 0;
}

static void spin(struct gate *gate)
{
    atomic_fetch_add(&gate->entered, 1);
    while (!atomic_load(&gate->open))
        stint_checkpoint();
}

static int loop_masked(void *arg, void **value)
{
    (void)value;
    stint_mask();
    spin(arg);
    stint_unmask();
    return 0;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int loop_with_a_lock(void *arg, void **value)
{
    (void)value;
    pthread_mutex_lock(&mutex);
    spin(arg);
    pthread_mutex_unlock(&mutex);
    stint_checkpoint();
    return 0;
}

static int compare_for_ever(const void *one, const void *other, void *arg)
{
    (void)one;
    (void)other;
    if (!atomic_load(&((struct gate *)arg)->open))
        spin(arg);
    return 0;
}

static int loop_in_a_comparator(void *arg, void **value)
{
    int numbers[] = { 2, 1 };
    (void)value;
    qsort_r(numbers, 2, sizeof *numbers, compare_for_ever, arg);
    stint_checkpoint();
    return 0;
}

static void check_report(stint_fn *fn, stint_deferral deferral)
{
    static struct told told;
    stint_pool *pool = make_watched_pool(1, 0, &told);
    struct gate gate = { 0 };
    stint_account *account;
    const stint_account_limits limits = { .size = sizeof(stint_account_limits), .name = "tenant" };
    assert_int_equal(stint_account_create(NULL, &limits, &account), 0);
    stint_options options = {
        .size = sizeof(stint_options), .name = "bomb", .account = account, .budget = { .run_ns = 2 * MS }
    };
    stint_future *bomb = submit_with(pool, fn, &gate, options);
    await(&told.count, 1);
    assert_string_equal(told.name, "bomb");
    assert_string_equal(told.account, "tenant");
    assert_true(told.task.running && told.task.overdue && told.report.replaced);
    assert_true(told.report.late_ns >= 5 * MS);
    assert_true(told.task.run_ns >= 7 * MS);
    assert_int_equal(told.task.limits.run_ns, 2 * MS);
    if (told.task.deferral != STINT_DEFERRAL_NONE) /* a thread that got no processor for a while has not tried yet */
        assert_string_equal(stint_deferral_name(told.task.deferral), stint_deferral_name(deferral));
    /* The pool is as wide as before: a spare works in its place. */
    for (int i = 0; i < 50; i++)
        assert_ok(take(
            submit_with(pool, do_nothing, NULL, (stint_options){ .size = sizeof(stint_options), .name = "other" })));
    assert_false(stint_future_is_ready(bomb));
    gate_open(&gate);
    assert_outcome(take(bomb), STINT_ERROR, STINT_REASON_DEADLINE, ETIMEDOUT);
    assert_int_equal(stint_pool_destroy(pool), 0);
    assert_int_equal(atomic_load(&told.count), 1); /* once */
    stint_account_release(account);
}

TEST(an_overdue_task_is_reported_with_what_defers_it_and_replaced)
{
    check_report(loop_without_sample_points, STINT_DEFERRAL_NONE);
    check_report(loop_masked, STINT_DEFERRAL_MASK);
    if (stint_malloc_is_overridden()) /* locks are seen then */
        check_report(loop_with_a_lock, STINT_DEFERRAL_LOCK);
    if (stint_malloc_is_overridden()) /* sanitizers have a qsort_r of their own */
        check_report(loop_in_a_comparator, STINT_DEFERRAL_FRAME);
}

TEST(tasks_that_end_in_time_are_not_reported)
{
    static struct told told;
    stint_pool *pool = make_watched_pool(2, 0, &told);
    for (int i = 0; i < 500; i++)
        take(submit_with(pool, do_nothing, NULL,
                         (stint_options){ .size = sizeof(stint_options),
                                          .budget = { .wall_ns = 3600000 * MS, .run_ns = 3600000 * MS } }));
    struct gate gate = { 0 };
    stint_future *no_deadline =
        submit_with(pool, gate_hold, &gate, (stint_options){ .size = sizeof(stint_options), .name = "no deadline" });
    nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    gate_open(&gate);
    take(no_deadline);
    assert_int_equal(stint_pool_destroy(pool), 0);
    assert_int_equal(atomic_load(&told.count), 0);
}

/* --- The place comes back ----------------------------------------------------------------------------------------- */

static struct {
    atomic_uint inside, most;
} crowd;

static int be_inside(void *arg, void **value)
{
    (void)arg;
    (void)value;
    unsigned inside = atomic_fetch_add(&crowd.inside, 1) + 1;
    if (inside > atomic_load(&crowd.most))
        atomic_store(&crowd.most, inside);
    gate_nap();
    atomic_fetch_sub(&crowd.inside, 1);
    return 0;
}

TEST(when_it_has_ended_after_all_the_pool_is_no_wider_than_before)
{
    enum { BOMBS = 6, TASKS = 200 };
    static struct told told;
    stint_pool *pool = make_watched_pool(2, 0, &told);
    struct gate gate = { 0 };
    stint_future *bombs[BOMBS];
    static stint_future *futures[TASKS];
    for (int i = 0; i < BOMBS; i++) /* each of them gets a worker, since those before it have been replaced */
        bombs[i] = submit_with(pool, loop_masked, &gate,
                               (stint_options){ .size = sizeof(stint_options), .budget = { .run_ns = MS } });
    await(&told.count, BOMBS);
    gate_open(&gate);
    for (int i = 0; i < BOMBS; i++)
        take(bombs[i]);
    /* Of the first lot some may be begun by substitutes that looked for work as the others came back. */
    for (int lot = 0; lot < 2; lot++) {
        atomic_store(&crowd.most, 0);
        for (int i = 0; i < TASKS; i++)
            futures[i] =
                submit_with(pool, be_inside, NULL, (stint_options){ .size = sizeof(stint_options), .name = "inside" });
        for (int i = 0; i < TASKS; i++)
            assert_ok(take(futures[i]));
    }
    assert_in_range(atomic_load(&crowd.most), 1, 2);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static int block_then_spin(void *arg, void **value)
{
    (void)value;
    stint_mask();
    for (int i = 0; i < 3; i++) {
        stint_blocking_begin();
        nanosleep(&(struct timespec){ .tv_nsec = 4000000 }, NULL);
        stint_blocking_end();
    }
    spin(arg);
    stint_blocking_begin();
    stint_blocking_end();
    stint_unmask();
    return 0;
}

TEST(overdue_tasks_may_sleep_and_without_spares_nobody_comes)
{
    static struct told told;
    for (int round = 0; round < 2; round++) {
        stint_pool *pool = make_watched_pool(1, round == 0 ? 2 : STINT_NO_SUBSTITUTES, &told);
        struct gate gate = { 0 };
        stint_future *bomb = submit_with(pool, block_then_spin, &gate,
                                         (stint_options){ .size = sizeof(stint_options), .budget = { .run_ns = MS } });
        await(&told.count, 1);
        gate_await(&gate, 1);
        if (round == 0)
            assert_ok(take(submit_with(pool, do_nothing, NULL,
                                       (stint_options){ .size = sizeof(stint_options), .name = "other" })));
        else
            assert_false(told.report.replaced);
        gate_open(&gate);
        take(bomb);
        assert_ok(take(
            submit_with(pool, do_nothing, NULL, (stint_options){ .size = sizeof(stint_options), .name = "other" })));
        assert_int_equal(stint_pool_destroy(pool), 0);
    }
}

/* --- Leaving the pool to them ------------------------------------------------------------------------------------- */

TEST(a_pool_can_be_left_to_tasks_that_do_not_end)
{
    static struct told told[20]; /* reports of a pool that was left may come late */
    for (int round = 0; round < 20; round++) {
        stint_pool *pool = make_watched_pool(3, 0, &told[round]);
        struct gate gate = { 0 };
        stint_future *bombs[2], *queued[20];
        for (int i = 0; i < 2; i++)
            bombs[i] = submit_with(pool, loop_masked, &gate,
                                   (stint_options){ .size = sizeof(stint_options), .budget = { .run_ns = MS } });
        gate_await(&gate, 2);
        for (int i = 0; i < 20; i++)
            queued[i] =
                submit_with(pool, do_nothing, NULL, (stint_options){ .size = sizeof(stint_options), .name = "queued" });
        unsigned left = 99;
        assert_int_equal(stint_pool_destroy_within(pool, (uint64_t)(round % 5) * MS, &left), ETIMEDOUT);
        assert_in_range(left, 2, 3); /* the third may just be running another */
        for (int i = 0; i < 20; i++)
            take(queued[i]);
        assert_false(stint_future_is_ready(bombs[0]) || stint_future_is_ready(bombs[1]));
        gate_open(&gate);
        for (int i = 0; i < 2; i++)
            assert_int_not_equal(take(bombs[i]).status, STINT_OK);
    }
    /* Those who freed the pools are not waited for; told outlives them. */
    nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
}

TEST(a_pool_whose_tasks_end_in_time_is_destroyed)
{
    static struct told told;
    unsigned left = 99;
    for (int round = 0; round < 200; round++) {
        stint_pool *pool = make_watched_pool(2, 0, &told);
        stint_future *future =
            submit_with(pool, do_nothing, NULL, (stint_options){ .size = sizeof(stint_options), .name = "other" });
        int error = stint_pool_destroy_within(pool, round % 2 == 0 ? STINT_FOREVER : 0, &left);
        if (error == 0 || round % 2 == 0) {
            assert_int_equal(error, 0);
            assert_int_equal(left, 0);
        } else {
            assert_int_equal(error, ETIMEDOUT);
        }
        take(future);
    }
    assert_int_equal(stint_pool_destroy_within(NULL, 0, &left), 0);
    assert_int_equal(left, 0);
    nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
}

TEST_MAIN()
