/* SPDX-License-Identifier: MIT
 *
 * A function of libc's that the program has replaced by its own, and that the library calls: it lies in a module that a
 * signal may stop, but what the library was doing is half done. */
#include <sys/syscall.h>
#include <time.h>

#include "support.h"

static _Atomic bool is_slow;

/* So slow that most signals find the thread here. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    int error = (int)syscall(SYS_clock_gettime, clock, now);
    for (volatile int i = 0; is_slow && i < 20000; i++)
        ;
    return error;
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

TEST(the_library_is_not_left_in_the_midst_of_a_call_of_the_programs_clock)
{
    stint_pool *pool;
    stint_pool_options pool_options = STINT_POOL_OPTIONS_INIT;
    pool_options.workers = 2;
    assert_int_equal(stint_pool_create(&pool_options, &pool), 0);
    is_slow = true;
    for (unsigned i = 0; i < repeats(2000); i++) {
        stint_options options = STINT_OPTIONS_INIT;
        stint_future *future;
        stint_outcome outcome;
        options.preemptible = true;
        options.budget.wall_ns = 20000 + i % 50 * 10000;
        assert_int_equal(stint_submit(pool, i % 2 == 0 ? turn_for_ever : call_for_ever, NULL, &options, &future), 0);
        assert_int_equal(stint_future_wait(future, &outcome), 0);
        assert_int_not_equal(outcome.status, STINT_OK);
        assert_true(outcome.reason == STINT_REASON_DEADLINE || outcome.reason == STINT_REASON_EXPIRED);
        stint_future_release(future);
    }
    is_slow = false;
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST_MAIN()
