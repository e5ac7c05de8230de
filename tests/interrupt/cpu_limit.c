/* SPDX-License-Identifier: MIT
 *
 * The limit on processor time: what counts for it, what does not, and that tasks which sleep, allocate rarely or not at
 * all are treated right. */
#include "support.h"

#include <sched.h>

static void burn(uint64_t ns)
{
    uint64_t end = thread_time_ns() + ns;
    while (thread_time_ns() < end)
        ;
}

static int allocate_for_ever(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (;;) {
        void *block = stint_malloc(100);
        if (block == NULL)
            return ENOMEM;
        stint_free(block);
    }
}

static int burn_and_allocate_rarely(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (int i = 0; i < 2000; i++) {
        burn(MS);
        stint_free(stint_malloc(16));
    }
    return 0;
}

static int nap_often(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (int i = 0; i < 20; i++) {
        nanosleep(&(struct timespec){ .tv_nsec = 2 * MS }, NULL);
        stint_checkpoint();
    }
    return 0;
}

static stint_outcome run(stint_fn *fn, void *arg, const stint_options *options)
{
    stint_outcome outcome;
    assert_int_equal(stint_run(fn, arg, options, &outcome), 0);
    return outcome;
}

static void assert_spent(stint_outcome outcome, uint64_t limit)
{
    assert_int_equal(outcome.status, STINT_ERROR);
    assert_int_equal(outcome.reason, STINT_REASON_CPU);
    assert_int_equal(outcome.error, ETIMEDOUT);
    assert_true(outcome.usage.cpu_ns >= limit);
    assert_string_equal(stint_reason_name(outcome.reason), "cpu");
}

TEST(a_task_that_spends_its_processor_time_is_stopped)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.cpu_ns = 10 * MS;
    assert_spent(run(allocate_for_ever, NULL, &options), 10 * MS);
    assert_spent(run(burn_and_allocate_rarely, NULL, &options), 10 * MS);
    options.on_interrupt = STINT_FAIL;
    assert_spent(run(allocate_for_ever, NULL, &options), 10 * MS);
}

TEST(a_preemptible_loop_that_spends_its_processor_time_is_stopped)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.cpu_ns = 10 * MS;
    options.preemptible = true;
    assert_spent(run(loop_for_ever, NULL, &options), 10 * MS);
}

TEST(sleeping_costs_no_processor_time)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.cpu_ns = 20 * MS;
    stint_outcome outcome = run(nap_often, NULL, &options);
    assert_int_equal(outcome.status, STINT_OK);
    assert_true(outcome.usage.wall_ns >= 40 * MS);
    assert_true(outcome.usage.cpu_ns < 20 * MS);
    assert_true(outcome.usage.cpu_ns > 0);
}

static int burn_some(void *arg, void **value)
{
    (void)value;
    burn(*(uint64_t *)arg);
    return 0;
}

TEST(it_is_measured_only_where_it_is_asked_for)
{
    stint_options options = STINT_OPTIONS_INIT;
    uint64_t time = 3 * MS;
    assert_int_equal(run(burn_some, &time, &options).usage.cpu_ns, 0);
    options.budget.cpu_ns = UINT64_MAX;
    stint_outcome outcome = run(burn_some, &time, &options);
    assert_int_equal(outcome.status, STINT_OK);
    assert_true(outcome.usage.cpu_ns >= time);
}

struct nested {
    stint_options inner;
    stint_outcome outcome;
    uint64_t time;
};

static int run_inner(void *arg, void **value)
{
    (void)value;
    struct nested *nested = arg;
    return stint_run(burn_some, &nested->time, &nested->inner, &nested->outcome);
}

TEST(what_an_inner_scope_spends_is_spent_by_the_outer_one)
{
    struct nested nested = { .inner = STINT_OPTIONS_INIT, .time = 15 * MS };
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.cpu_ns = 10 * MS;
    assert_int_equal(run(run_inner, &nested, &options).reason, STINT_REASON_CPU);
    nested.inner.budget.cpu_ns = 5 * MS;
    options.budget.cpu_ns = UINT64_C(1000) * MS;
    stint_outcome outcome = run(run_inner, &nested, &options);
    assert_int_equal(outcome.status, STINT_OK);
    assert_true(outcome.usage.cpu_ns >= nested.outcome.usage.cpu_ns);
    assert_spent(nested.outcome, 5 * MS);
}

struct waiting {
    stint_pool *pool;
    uint64_t time;
};

static int wait_for_one_that_burns(void *arg, void **value)
{
    struct waiting *waiting = arg;
    (void)value;
    stint_future *future;
    int error = stint_submit(waiting->pool, burn_some, &waiting->time, NULL, &future);
    if (error != 0)
        return error;
    error = stint_future_wait(future, NULL);
    stint_future_release(future);
    return error;
}

TEST(what_is_run_for_a_task_that_waits_is_not_its_own)
{
    struct waiting waiting = { .time = 30 * MS };
    const stint_pool_options pool_options = { .size = sizeof(stint_pool_options), .workers = 1 };
    assert_int_equal(stint_pool_create(&pool_options, &waiting.pool), 0);
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.cpu_ns = 20 * MS;
    stint_future *future;
    stint_outcome outcome;
    assert_int_equal(stint_submit(waiting.pool, wait_for_one_that_burns, &waiting, &options, &future), 0);
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    stint_future_release(future);
    assert_int_equal(outcome.status, STINT_OK);
    assert_true(outcome.usage.cpu_ns < 20 * MS);
    assert_int_equal(stint_pool_destroy(waiting.pool), 0);
}

static int sleep_and_allocate_rarely(void *arg, void **value)
{
    unsigned *allocations = arg;
    (void)value;
    for (; *allocations < 2000; ++*allocations) {
        nanosleep(&(struct timespec){ .tv_nsec = MS }, NULL);
        stint_free(stint_malloc(16));
    }
    return 0;
}

TEST(a_deadline_stops_a_task_that_allocates_rarely_at_its_next_allocation)
{
    unsigned allocations = 0; /* 16 KiB of them would be 1024 */
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.wall_ns = 20 * MS;
    stint_outcome outcome = run(sleep_and_allocate_rarely, &allocations, &options);
    assert_int_equal(outcome.reason, STINT_REASON_DEADLINE);
    assert_in_range(allocations, 1, 500);
}

TEST_MAIN()
