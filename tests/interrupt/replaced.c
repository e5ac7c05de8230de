/* SPDX-License-Identifier: MIT
 *
 * A function of libc's that the program has replaced by its own, and that the library calls: it lies in a module that
 * may be left, but what the library was doing is half done. */
#include <sys/syscall.h>
#include <time.h>

#include "support.h"

/* What the clock does besides. */
static void (*_Atomic besides)(void);

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int error = (int)syscall(SYS_clock_gettime, clock, now);
    void (*also)(void) = besides;
    if (also != NULL)
        also();
    return error;
}

/* So slow that most signals find the thread here. */
static void be_slow(void)
{
    for (volatile int i = 0; i < 20000; i++)
        ;
}

static _Atomic unsigned long entered;
static _Atomic unsigned long returned;

static void count_a_call_with(void (*sample_point)(void))
{
    static _Thread_local bool is_inside; /* a sample point may look at the clock */
    if (is_inside)
        return;
    is_inside = true;
    entered++;
    sample_point();
    returned++;
    is_inside = false;
}

static void check(void)
{
    stint_checkpoint();
}

static void allocate(void)
{
    void *volatile block = malloc(100);
    free(block);
}

static void count_a_call_that_checks(void)
{
    count_a_call_with(check);
}

static void count_a_call_that_allocates(void)
{
    count_a_call_with(allocate);
}

static int turn_for_ever(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (volatile int i = 0;; i++)
        ;
    return 0;
}

static int fork_nothing(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return 0;
}

/* Calls of the library's that look at the clock. */
static int call_for_ever(void *arg, void **value)
{
    (void)value;
    for (;;) {
        stint_subtask subtask;
        stint_outcome outcome;
        stint_fork(&subtask, fork_nothing, arg);
        stint_join(&subtask, NULL);
        stint_run(fork_nothing, arg, NULL, &outcome);
    }
    return 0;
}

static stint_pool *pool;

static void release(void *future)
{
    stint_future_release(*(stint_future **)future);
}

static int wait_for_ever(void *arg, void **value)
{
    (void)value;
    for (;;) {
        stint_options options = STINT_OPTIONS_INIT;
        stint_future *future = NULL;
        stint_outcome outcome;
        STINT_GUARD(release, &future);
        options.budget.wall_ns = 1000000000;
        if (stint_submit(pool, fork_nothing, arg, &options, &future) == 0)
            stint_future_wait_for(future, 100000000, &outcome);
    }
    return 0;
}

/* Each of the functions in turn, stopped by its deadline, while the clock does that besides. */
static void stop_while_the_clock(void (*also)(void), bool preemptible, stint_fn *const *functions, size_t count)
{
    stint_pool_options pool_options = STINT_POOL_OPTIONS_INIT;
    pool_options.workers = 2;
    assert_int_equal(stint_pool_create(&pool_options, &pool), 0);
    besides = also;
    for (unsigned i = 0; i < repeats(2000); i++) {
        stint_options options = STINT_OPTIONS_INIT;
        stint_future *future;
        stint_outcome outcome;
        options.preemptible = preemptible;
        options.budget.wall_ns = 20000 + i % 50 * 10000;
        assert_int_equal(stint_submit(pool, functions[i % count], NULL, &options, &future), 0);
        assert_int_equal(stint_future_wait(future, &outcome), 0);
        assert_int_not_equal(outcome.status, STINT_OK);
        assert_true(outcome.reason == STINT_REASON_DEADLINE || outcome.reason == STINT_REASON_EXPIRED);
        stint_future_release(future);
    }
    besides = NULL;
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(the_library_is_not_left_in_the_midst_of_a_call_of_the_programs_clock)
{
    stop_while_the_clock(be_slow, true, (stint_fn *[]){ turn_for_ever, call_for_ever }, 2);
}

TEST(the_library_is_not_left_at_a_sample_point_of_the_programs_clock)
{
    static void (*const calls[])(void) = { count_a_call_that_checks, count_a_call_that_allocates };
    for (size_t i = 0; i < 2; i++) {
        entered = returned = 0;
        stop_while_the_clock(calls[i], false, (stint_fn *[]){ call_for_ever, wait_for_ever }, 2);
        assert_true(entered > 0);
        assert_int_equal(entered, returned);
    }
}

TEST_MAIN()
