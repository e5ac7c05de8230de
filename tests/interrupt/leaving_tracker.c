/* SPDX-License-Identifier: MIT
 *
 * A profile's tracker that does not return, by longjmp, out of a signal's handler, or by pthread_exit: it ends where it
 * was called, in the midst of an allocation, and the task goes on. */
#include "support.h"

#include <signal.h>

typedef void leave_fn(void);

static jmp_buf way_out;
static sigjmp_buf way_out_with_mask;

static void leave_by_longjmp(void)
{
    longjmp(way_out, 1);
}

static void on_signal(int number)
{
    (void)number;
    siglongjmp(way_out_with_mask, 1);
}

static void leave_by_a_signal_s_handler(void)
{
    raise(SIGUSR1);
}

static void exit_thread(void)
{
    pthread_exit(NULL);
}

static leave_fn *const ways[] = { leave_by_longjmp, leave_by_a_signal_s_handler, exit_thread };
static leave_fn *leave_tracker;
static unsigned tracked;
static unsigned told;

static void be_told(const char *where, const char *what, void *arg)
{
    (void)what;
    (void)arg;
    told += strcmp(where, "tracker") == 0;
}

static void *follow(const stint_memprof_allocation *allocation, void *arg)
{
    (void)allocation;
    (void)arg;
    tracked++;
    leave_tracker();
    return NULL;
}

static int allocate_some(void *arg, void **value)
{
    (void)arg;
    (void)value;
    for (int i = 0; i < 100; i++)
        stint_free(keep(stint_malloc(1000)));
    return 0;
}

static __attribute__((noinline)) void run_followed(stint_outcome *outcome)
{
    stint_run(allocate_some, NULL, NULL, outcome);
}

TEST(a_tracker_that_does_not_return_follows_nothing)
{
    stint_exceptions_set_report(be_told, NULL);
    signal(SIGUSR1, on_signal);
    for (volatile unsigned way = 0; way < sizeof ways / sizeof *ways; way++) {
        if (ways[way] != exit_thread && !stint_malloc_is_overridden())
            continue;
        leave_tracker = ways[way];
        tracked = 0;
        told = 0;
        stint_memprof_options options = STINT_MEMPROF_OPTIONS_INIT;
        options.rate = 1;
        options.interval = 0;
        options.tracker.alloc = follow;
        assert_int_equal(stint_memprof_start(&options), 0);
        static stint_outcome outcome;
        outcome = (stint_outcome){ .status = STINT_CANCELLED };
        if (_setjmp(way_out) == 0 && sigsetjmp(way_out_with_mask, 1) == 0)
            run_followed(&outcome);
        assert_int_equal(stint_memprof_stop(), 0);
        assert_ok(outcome);
        assert_true(tracked >= 100);
        assert_int_equal(told, tracked);
    }
    stint_exceptions_set_report(NULL, NULL);
}

TEST_MAIN()
