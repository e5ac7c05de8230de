/* SPDX-License-Identifier: MIT
 *
 * stint_trace_start and stint_trace_stop: what they refuse, what a full disk does; neither a task nor a child of the
 * process notices. trace_read.py reads the trace itself. */
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "../pools.h"

static int nowhere;

static int open_nowhere(void **state)
{
    (void)state;
    nowhere = open("/dev/null", O_WRONLY);
    return nowhere < 0;
}

/* One test's failure is not the next one's EBUSY. */
static int stop_what_runs(void **state)
{
    (void)state;
    stint_trace_stop();
    return 0;
}

#define TRACE_TEST(name) TEST_WITH(name, NULL, stop_what_runs)

TRACE_TEST(a_descriptor_that_cannot_be_written_to_is_refused)
{
    int read_only = open("/dev/null", O_RDONLY);
    int path_only = open("/dev/null", O_PATH);
    assert_int_equal(stint_trace_start(-1), EINVAL);
    assert_int_equal(stint_trace_start(1000000), EINVAL);
    assert_int_equal(stint_trace_start(read_only), EINVAL);
    assert_int_equal(stint_trace_start(path_only), EINVAL);
    close(read_only);
    close(path_only);
    assert_int_equal(stint_trace_stop(), EINVAL);
}

TRACE_TEST(there_is_one_trace_at_a_time)
{
    assert_int_equal(stint_trace_start(nowhere), 0);
    assert_int_equal(stint_trace_start(nowhere), EBUSY);
    assert_int_equal(stint_trace_stop(), 0);
    assert_int_equal(stint_trace_stop(), EINVAL);
    assert_int_equal(stint_trace_start(nowhere), 0);
    assert_int_equal(stint_trace_stop(), 0);
}

static void run_some(stint_pool *pool)
{
    for (int i = 0; i < 100; i++)
        assert_int_equal(run_in_pool(pool, do_nothing, NULL, NULL).status, STINT_OK);
}

TRACE_TEST(a_full_disk_is_told_at_the_stop_and_harms_nobody)
{
    int full = open("/dev/full", O_WRONLY);
    stint_pool *pool = make_pool(.workers = 2);
    assert_int_equal(stint_trace_start(full), 0);
    run_some(pool);
    assert_int_equal(stint_trace_stop(), ENOSPC);
    assert_int_equal(stint_trace_start(nowhere), 0);
    run_some(pool);
    assert_int_equal(stint_trace_stop(), 0);
    assert_int_equal(fcntl(full, F_GETFD), 0);
    stint_pool_destroy(pool);
    close(full);
}

TRACE_TEST(a_pipe_that_nobody_reads_is_told_at_the_stop)
{
    int ends[2];
    stint_outcome outcome;
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    assert_int_equal(stint_trace_start(ends[1]), 0); /* SIGPIPE would end the process */
    assert_int_equal(stint_run(do_nothing, NULL, NULL, &outcome), 0);
    assert_int_equal(stint_trace_stop(), EPIPE);
    close(ends[1]);
}

TRACE_TEST(a_descriptor_that_has_become_another_file_is_not_written_to)
{
    int trace = memfd_create("trace", 0);
    int another = memfd_create("another", 0);
    stint_pool *pool = make_pool(.workers = 1);
    assert_int_equal(stint_trace_start(trace), 0);
    run_some(pool);
    assert_int_equal(dup2(another, trace), trace); /* the program has closed it, and opened something else */
    run_some(pool);
    assert_int_equal(stint_trace_stop(), EBADF);
    assert_int_equal(lseek(another, 0, SEEK_END), 0);
    stint_pool_destroy(pool);
    close(trace);
    close(another);
}

static void read_all_there_is(int fd)
{
    static char bytes[1 << 16];
    struct pollfd polled = { .fd = fd, .events = POLLIN };
    while (poll(&polled, 1, 50) > 0)
        assert_true(read(fd, bytes, sizeof bytes) > 0);
}

/* The tracer rests for long only after work, and a wait is not work. */
TRACE_TEST(a_reader_that_was_slow_is_not_kept_waiting_for_it)
{
    int ends[2];
    stint_pool *pool = make_pool(.workers = 1);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[1], F_SETPIPE_SZ, 4096), 4096);
    assert_int_equal(stint_trace_start(ends[1]), 0);
    run_some(pool);
    nanosleep(&(struct timespec){ .tv_nsec = 300000000 }, NULL);
    read_all_there_is(ends[0]);
    run_some(pool);
    struct pollfd polled = { .fd = ends[0], .events = POLLIN };
    assert_int_equal(poll(&polled, 1, 3000), 1);
    close(ends[0]);
    stint_trace_stop();
    close(ends[1]);
    stint_pool_destroy(pool);
}

static void *cancel_itself_and_stop(void *arg)
{
    pthread_cancel(pthread_self());
    *(int *)arg = stint_trace_stop();
    return NULL;
}

TRACE_TEST(a_thread_that_is_cancelled_meanwhile_stops_the_trace_first)
{
    pthread_t thread;
    void *end;
    int stopped = -1;
    assert_int_equal(stint_trace_start(nowhere), 0);
    assert_int_equal(pthread_create(&thread, NULL, cancel_itself_and_stop, &stopped), 0);
    assert_int_equal(pthread_join(thread, &end), 0);
    assert_int_equal(stopped, 0);
    assert_int_equal(stint_trace_start(nowhere), 0);
    assert_int_equal(stint_trace_stop(), 0);
}

static int trace_inside(void *arg, void **value)
{
    stint_token *token = arg;
    (void)value;
    int error = stint_trace_start(nowhere);
    stint_token_set(token);
    return error != 0 ? error : stint_trace_stop(); /* not before it has ended is the interrupt delivered */
}

TRACE_TEST(an_interrupt_waits_for_the_end_of_a_call)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    assert_int_equal(stint_token_create(NULL, &options.token), 0);
    assert_int_equal(stint_run(trace_inside, options.token, &options, &outcome), 0);
    assert_int_equal(outcome.reason, STINT_REASON_TOKEN);
    assert_int_equal(stint_trace_stop(), EINVAL);
    stint_token_release(options.token);
}

TRACE_TEST(the_child_of_a_fork_that_nobody_is_told_of_has_no_trace)
{
#if defined __SANITIZE_THREAD__
    skip_because("ThreadSanitizer does not hear of such a fork either: another thread may have a lock of its own then");
#endif
    int status;
    assert_int_equal(stint_trace_start(nowhere), 0);
    pid_t child = _Fork();
    if (child == 0) {
        alarm(10);
        _exit(stint_trace_stop() == EINVAL ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(stint_trace_stop(), 0);
}

TRACE_TEST(a_ring_is_charged_to_no_task)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = 64 << 10; /* a ring is larger */
    stint_outcome outcome;
    assert_int_equal(stint_trace_start(nowhere), 0);
    stint_pool *pool = make_pool(.workers = 1);
    outcome = run_in_pool(pool, do_nothing, NULL, &options);
    assert_int_equal(outcome.status, STINT_OK);
    assert_int_equal(outcome.usage.allocated, 0);
    assert_int_equal(stint_trace_stop(), 0);
    stint_pool_destroy(pool);
}

TEST_MAIN_WITH(open_nowhere, NULL)
