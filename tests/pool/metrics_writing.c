/* SPDX-License-Identifier: MIT
 *
 * stint_metrics_write where something goes wrong as it writes, in a task, and while others count. */
#include "metrics.h"

#include <signal.h>
#include <sys/resource.h>

/* --- First, while this process has no other thread. --- */

static int write_where_arg_says(void *arg, void **value)
{
    (void)value;
    return stint_metrics_write(*(const int *)arg);
}

/* Then poll(2) refuses all, and cannot say whether write() would wait. */
TEST(a_task_writes_where_its_process_may_open_no_descriptor)
{
    int nowhere = open("/dev/null", O_WRONLY);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit none = { .rlim_cur = 0, .rlim_max = 0 };
        stint_outcome outcome;
        alarm(30);
        bool is_good = setrlimit(RLIMIT_NOFILE, &none) == 0 &&
                       stint_run(write_where_arg_says, &nowhere, NULL, &outcome) == 0 && outcome.error == 0;
        _exit(is_good ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(nowhere);
}

/* --- Writing ------------------------------------------------------------------------------------------------------ */

TEST(what_write_reports_is_returned_and_nothing_else_is_lost)
{
    assert_int_equal(stint_metrics_write(-1), EBADF);
    int fd = open("/dev/full", O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(stint_metrics_write(fd), ENOSPC);
    close(fd);
    int ends[2];
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    assert_true(fcntl(ends[1], F_SETPIPE_SZ, 4096) >= 0);
    errno = 0;
    assert_int_equal(stint_metrics_write(ends[1]), EAGAIN);
    assert_int_equal(errno, 0);
    close(ends[0]);
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(stint_metrics_write(ends[1]), EPIPE);
    signal(SIGPIPE, SIG_DFL);
    close(ends[1]);
    free(metrics());
}

struct reading {
    int fd;
    pthread_t writer;
    char *text;
};

static void ignore(int number)
{
    (void)number;
}

/* A few bytes at a time, and a signal between. */
static void *read_slowly(void *arg)
{
    struct reading *reading = arg;
    size_t size = 0;
    ssize_t count;
    while ((count = read(reading->fd, reading->text + size, 1000)) > 0) {
        size += (size_t)count;
        pthread_kill(reading->writer, SIGUSR1);
        sched_yield();
    }
    reading->text[size] = '\0';
    return NULL;
}

TEST(a_slow_reader_gets_all_of_it_whatever_signals_the_writer)
{
    struct sigaction action = { .sa_handler = ignore }; /* without SA_RESTART */
    sigaction(SIGUSR1, &action, NULL);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_true(fcntl(ends[1], F_SETPIPE_SZ, 4096) >= 0);
    struct reading reading = { .fd = ends[0], .writer = pthread_self(), .text = malloc(TEXT_MAX) };
    pthread_t reader;
    assert_int_equal(pthread_create(&reader, NULL, read_slowly, &reading), 0);
    assert_int_equal(stint_metrics_write(ends[1]), 0);
    close(ends[1]);
    assert_int_equal(pthread_join(reader, NULL), 0);
    assert_true(is_whole(reading.text));
    assert_true(look_up(reading.text, "stint_kept_bytes") >= 0);
    close(ends[0]);
    free(reading.text);
}

static int write_in_task(void *arg, void **value)
{
    (void)value;
    int error = stint_metrics_write(*(int *)arg);
    stint_free(stint_malloc(10000));
    return error;
}

TEST(in_a_task_it_charges_nothing_and_an_interrupt_waits_for_its_end)
{
    int fd = memfd_create("metrics", 0);
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = 100;
    options.preemptible = true;
    stint_outcome outcome = run_task(write_in_task, &fd, &options);
    assert_limit_passed(outcome);
    assert_int_equal(outcome.usage.allocated, 0);
    char *text = text_of(fd);
    assert_true(is_whole(text));
    free(text);
}

/* --- At once ------------------------------------------------------------------------------------------------------ */

struct crowd {
    atomic_bool stop;
    stint_pool *pool;
};

static void *come_and_go(void *arg)
{
    struct crowd *crowd = arg;
    size_t size = 500;
    while (!atomic_load(&crowd->stop)) {
        stint_pool *pool;
        const stint_pool_options options = { .size = sizeof options, .workers = 1, .name = "crowd" };
        if (stint_pool_create(&options, &pool) != 0)
            continue;
        stint_account *account;
        const stint_account_limits limits = { .size = sizeof limits, .name = "crowd" };
        if (stint_account_create(NULL, &limits, &account) == 0) {
            stint_options with_account = { .size = sizeof with_account, .account = account };
            stint_future *future;
            if (stint_submit(pool, allocate, &size, &with_account, &future) == 0)
                stint_future_release(future);
            stint_account_release(account);
        }
        stint_pool_destroy(pool);
    }
    return NULL;
}

static int submit_and_run(void *arg, void **value)
{
    struct crowd *crowd = arg;
    stint_outcome outcome;
    (void)value;
    while (!atomic_load(&crowd->stop)) {
        stint_future *future;
        int error = stint_submit(crowd->pool, do_nothing, NULL, NULL, &future);
        error = error != 0 ? error : stint_future_wait(future, NULL);
        stint_future_release(future);
        error = error != 0 ? error : stint_run(do_nothing, NULL, NULL, &outcome);
        if (error != 0)
            return error;
    }
    return 0;
}

TEST(it_is_whole_and_counters_never_shrink_while_pools_come_and_go_and_tasks_run)
{
    static const char *const samples[] = { "stint_runs_total{reason=\"none\"}", "stint_run_seconds_sum",
                                           "stint_account_charged_bytes_total{account=\"crowd\"}",
                                           "stint_pool_tasks_total{pool=\"steady\",reason=\"none\"}",
                                           "stint_pool_task_run_seconds_count{pool=\"steady\"}" };
    double before[5] = { 0 };
    struct crowd crowd = { .pool = make_pool(.workers = 2, .name = "steady") };
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, &crowd), 0);
    stint_future *futures[2];
    for (int i = 0; i < 2; i++)
        futures[i] = submit(crowd.pool, submit_and_run, &crowd, NULL);
    for (unsigned round = 0; round < repeats(100); round++) {
        char *text = metrics();
        for (int i = 0; i < 5; i++) {
            double now = look_up(text, samples[i]);
            assert_true(now >= before[i] || now == -1);
            before[i] = now;
        }
        free(text);
    }
    atomic_store(&crowd.stop, true);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_ok(take(futures[i]));
    }
    assert_int_equal(stint_pool_destroy(crowd.pool), 0);
}

TEST_MAIN()
