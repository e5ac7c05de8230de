/* SPDX-License-Identifier: MIT
 *
 * OpenMP in tasks: whatever becomes of them, later parallel regions have all their threads and right results. */
#include "support.h"

#include <omp.h>

#define LIMIT MIB

struct region {
    int threads;
    int error; /* that the task ends with; negative: a thread of the region allocates until it is stopped */
    int sum;
    int seen; /* threads */
};

static int run_region(void *arg, void **value)
{
    struct region *region = arg;
    int sum = 0;
    int seen = 0;
    (void)value;
#pragma omp parallel num_threads(region->threads) reduction(+ : sum) reduction(+ : seen)
    {
        seen++;
        sum += omp_get_thread_num() + 1;
        if (region->error < 0 && omp_get_thread_num() == 0) {
            for (int i = 0; i < 4000; i++)
                keep(malloc(1000));
        }
    }
    region->sum = sum;
    region->seen = seen;
    if (region->error < 0)
        keep(malloc(1000));
    return region->error;
}

static stint_outcome run_in(struct region *region, stint_on_interrupt mode)
{
    stint_options options = { .size = sizeof(stint_options), .on_interrupt = mode };
    options.budget.allocation = 2 * LIMIT;
    return run_task(run_region, region, &options);
}

static void assert_regions_work(void)
{
    run_task(fill_blocks, NULL, NULL);
    for (int threads = 4; threads > 0; threads--) {
        struct region region = { .threads = threads };
        assert_ok(run_in(&region, STINT_JUMP));
        assert_int_equal(region.seen, threads);
        assert_int_equal(region.sum, threads * (threads + 1) / 2);
    }
}

/* The first of all, with a team that grows. */
TEST(a_task_that_fails_leaves_the_runtime_whole)
{
    for (int threads = 2; threads <= 6; threads += 2) {
        struct region region = { .threads = threads, .error = EIO };
        stint_outcome outcome = run_in(&region, STINT_JUMP);
        assert_int_equal(outcome.error, EIO);
        assert_int_equal(outcome.usage.kept, 0);
        assert_int_equal(region.seen, threads);
        assert_regions_work();
    }
}

TEST(an_interrupt_waits_for_the_end_of_a_region)
{
    for (stint_on_interrupt mode = STINT_JUMP; mode <= STINT_UNWIND; mode++) {
        struct region region = { .threads = 3, .error = -1 };
        assert_limit_passed(run_in(&region, mode));
        assert_int_equal(region.seen, 3);
        assert_regions_work();
    }
}

/* The runtime ends the process where it has no memory. */
static int be_refused_and_run_region(void *arg, void **value)
{
    struct region *region = arg;
    for (int i = 0; i < 4000 && !stint_is_interrupted(); i++)
        keep(malloc(1000));
    void *volatile refused = malloc(1000); /* or clang knows that it is not NULL, and makes none */
    assert_null(refused);
    return run_region(region, value);
}

TEST(a_runtime_is_not_refused_what_it_cannot_do_without)
{
    for (int threads = 8; threads <= 16; threads++) { /* more than before */
        struct region region = { .threads = threads };
        stint_options options = STINT_OPTIONS_INIT;
        options.on_interrupt = STINT_FAIL;
        options.budget.allocation = 2 * LIMIT;
        assert_limit_passed(run_task(be_refused_and_run_region, &region, &options));
        assert_int_equal(region.seen, threads);
    }
}

static int ask_for_the_time(void *arg, void **value)
{
    time_t when = 1700000000;
    const struct tm *local;
    (void)value;
    for (int i = 0; i < 1000; i++) /* so that the task has a heap by then */
        keep(malloc(100));
    setenv("TZ", arg, 1);
    local = localtime(&when);
    return local != NULL && local->tm_hour == 3 ? EAGAIN : EIO;
}

/* The runtime's constructor comes before this library's. */
TEST(what_libc_makes_for_itself_beside_the_runtime_outlives_the_task)
{
    static char zones[][8] = { "ABC-5", "ABD-5", "ABE-5", "ABF-5" };
    for (size_t i = 0; i < sizeof zones / sizeof *zones; i++) {
        stint_outcome outcome = run_task(ask_for_the_time, zones[i], NULL);
        assert_int_equal(outcome.error, EAGAIN);
        assert_int_equal(outcome.usage.kept, 0); /* libc still points there */
        run_task(fill_blocks, NULL, NULL);
    }
    assert_int_equal(ask_for_the_time(zones[0], NULL), EAGAIN);
}

TEST(outside_of_tasks_regions_work_too)
{
    struct region region = { .threads = 4 };
    run_region(&region, NULL);
    assert_int_equal(region.seen, 4);
    assert_regions_work();
}

int main(void)
{
    omp_set_dynamic(0);
    return run_all_tests(NULL, NULL);
}
