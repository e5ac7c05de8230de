/* SPDX-License-Identifier: MIT
 *
 * The number of the library's own threads: the code that forks counts the others. */
#include <sys/mman.h>

#include "pools.h"

#include "alloc/platform/system.h"

static int run_with_deadline(void)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    options.budget.wall_ns = 60000 * MS;
    return stint_run(do_nothing, NULL, &options, &outcome);
}

static int run_with_limits_of_bytes(void)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    options.budget.memory = options.budget.allocation = MIB;
    return stint_run(do_nothing, NULL, &options, &outcome);
}

TEST(none_is_there_before_one_is_needed)
{
    assert_int_equal(run_with_limits_of_bytes(), 0);
    assert_int_equal(sti_process_own_threads(), 0);
    assert_int_equal(threads_of_the_process(), 1);
}

TEST(a_deadline_needs_one_and_a_second_deadline_no_more)
{
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run_with_deadline(), 0);
        assert_int_equal(sti_process_own_threads(), 1);
        assert_int_equal(threads_of_the_process(), 2);
    }
}

TEST(a_trace_has_one_for_as_long_as_it_runs)
{
    int file = memfd_create("trace", MFD_CLOEXEC);
    assert_int_equal(stint_trace_start(file), 0);
    assert_int_equal(sti_process_own_threads(), 2);
    assert_int_equal(threads_of_the_process(), 3);
    assert_int_equal(stint_trace_start(file), EBUSY);
    assert_int_equal(sti_process_own_threads(), 2);
    assert_int_equal(stint_trace_stop(), 0);
    assert_int_equal(sti_process_own_threads(), 1);
    close(file);
}

TEST(workers_of_a_pool_are_not_counted)
{
    stint_pool *pool;
    const stint_pool_options options = { .size = sizeof(stint_pool_options), .workers = 2 };
    assert_int_equal(stint_pool_create(&options, &pool), 0);
    assert_int_equal(sti_process_own_threads(), 1);
    assert_true(threads_of_the_process() > 2);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TESTS_NEED(lack_of_lone_threads)

TEST_MAIN()
