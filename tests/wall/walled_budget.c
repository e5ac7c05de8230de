/* SPDX-License-Identifier: MIT
 *
 * The budget of a walled task changes while it runs in its child, and a reader sees what it has used so far. */
#include "../walls.h"

#define CHUNK ((size_t)1000)

static int allocate(size_t bytes)
{
    for (size_t i = 0; i < bytes / CHUNK; i++) {
        void *volatile block = stint_malloc(CHUNK); /* or clang does without */
        if (block == NULL)
            return ENOMEM;
    }
    return 0;
}

/* A megabyte, then a long rest, then another one. */
static int allocate_two(const void *input, size_t size, stint_reply *reply)
{
    (void)input;
    (void)size;
    (void)reply;
    int error = allocate(MIB);
    nanosleep(&(struct timespec){ .tv_nsec = 300 * (long)MS }, NULL);
    return error != 0 ? error : allocate(MIB);
}

static int sleep_long(const void *input, size_t size, stint_reply *reply)
{
    (void)input;
    (void)size;
    (void)reply;
    nanosleep(&(struct timespec){ .tv_nsec = 400 * (long)MS }, NULL);
    return 0;
}

static int sleep_for_ever(const void *input, size_t size, stint_reply *reply)
{
    (void)input;
    (void)size;
    (void)reply;
    for (;;)
        pause();
    return 0;
}

/* Waits until the task has allocated its first megabyte. */
static void await_megabyte(stint_future *future)
{
    stint_usage usage = { 0 };
    while (usage.allocated < MIB / 2 && !stint_future_is_ready(future)) {
        assert_int_equal(stint_future_usage(future, &usage), 0);
        gate_nap();
    }
    assert_true(usage.peak > 0);
}

static stint_reason run(stint_wall_fn *fn, stint_budget before, stint_budget after)
{
    stint_wall *wall = make_wall(.children = 1);
    stint_pool *pool = make_pool(.workers = 1);
    const stint_options options = { .size = sizeof options, .budget = before };
    stint_future *future = submit_walled(pool, wall, fn, NULL, 0, &options);
    if (fn == allocate_two)
        await_megabyte(future);
    int error = stint_future_set_budget(future, &after);
    assert_true(error == 0 || stint_future_is_ready(future));
    stint_outcome outcome = take_in_time(future);
    stint_free(outcome.value);
    assert_int_equal(stint_pool_destroy(pool), 0);
    assert_int_equal(stint_wall_destroy(wall), 0);
    return outcome.reason;
}

static void assert_reason(stint_reason reason, stint_reason expected)
{
    assert_string_equal(stint_reason_name(reason), stint_reason_name(expected));
}

TEST(a_walled_task_that_runs_goes_by_its_new_limits_of_bytes)
{
    assert_reason(run(allocate_two, (stint_budget){ .allocation = MIB + MIB / 2 }, (stint_budget){ 0 }),
                  STINT_REASON_NONE);
    assert_reason(run(allocate_two, (stint_budget){ 0 }, (stint_budget){ .allocation = MIB + MIB / 2 }),
                  STINT_REASON_ALLOCATION_LIMIT);
    assert_reason(run(allocate_two, (stint_budget){ .memory = MIB + MIB / 2 }, (stint_budget){ .memory = 8 * MIB }),
                  STINT_REASON_NONE);
    assert_reason(run(allocate_two, (stint_budget){ 0 }, (stint_budget){ .memory = MIB }), STINT_REASON_MEMORY_LIMIT);
}

TEST(a_walled_task_has_the_time_that_it_was_given_later)
{
    assert_reason(run(sleep_long, (stint_budget){ .wall_ns = 300 * MS }, (stint_budget){ .wall_ns = 60000 * MS }),
                  STINT_REASON_NONE);
}

TEST(a_walled_task_that_runs_is_stopped_at_an_earlier_limit_of_time)
{
    assert_reason(run(sleep_for_ever, (stint_budget){ .wall_ns = 60000 * MS }, (stint_budget){ .run_ns = 50 * MS }),
                  STINT_REASON_DEADLINE);
    assert_reason(run(sleep_for_ever, (stint_budget){ 0 }, (stint_budget){ .wall_ns = 50 * MS }),
                  STINT_REASON_DEADLINE);
    assert_reason(run(spin_for_ever, (stint_budget){ 0 }, (stint_budget){ .cpu_ns = 20 * MS }), STINT_REASON_CPU);
    assert_reason(run(spin_for_ever, (stint_budget){ .cpu_ns = 60000 * MS }, (stint_budget){ .cpu_ns = 20 * MS }),
                  STINT_REASON_CPU);
}

TESTS_NEED(lack_of_filters)

TEST_MAIN()
