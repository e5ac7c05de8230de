/* SPDX-License-Identifier: MIT
 *
 * Which tasks have a report, who owns it, and what goes wrong when it is written. */
#include "mainless.h"
#include "reports.h"

#include <setjmp.h>
#include <signal.h>

static volatile int sink;

static int grow(void *arg, void **value)
{
    for (void **node; (node = malloc(1000)) != NULL; *value = node)
        *node = *value;
    sink += *(volatile int *)arg;
    return ENOMEM;
}

static int number = 1;

static stint_future *submit_growing(stint_pool *pool, stint_report_level level, size_t allocation)
{
    stint_options options = options_of(level, 0);
    options.budget.allocation = allocation;
    stint_future *future = submit(pool, grow, &number, &options);
    assert_int_equal(stint_future_wait(future, NULL), 0);
    return future;
}

/* First: while this process has no other thread, its child can run tasks. */
static bool is_written_with_names(void)
{
    stint_options options = options_of(STINT_REPORT_STACK, MIB);
    stint_report *report = report_of(grow, &number, &options, STINT_REASON_MEMORY_LIMIT);
    json_t *read = report_read(report);
    bool is_named = is_in(json_at(read, "where", "stopped"), "grow");
    json_decref(read);
    stint_report_release(report);
    return is_named;
}

TEST(names_are_found_when_the_main_thread_has_ended)
{
    (void)state;
    assert_without_main_thread(is_written_with_names);
}

TEST(a_report_outlives_its_future_and_its_pool)
{
    (void)state;
    stint_pool *pool = make_pool(.workers = 1);
    stint_future *future = submit_growing(pool, STINT_REPORT_HEAP, MIB);
    stint_report *first;
    stint_report *second;
    assert_int_equal(stint_future_report(future, &first), 0);
    assert_int_equal(stint_future_report(future, &second), 0);
    assert_ptr_equal(first, second);
    stint_future_release(future);
    assert_int_equal(stint_pool_destroy(pool), 0);
    stint_report_release(first);
    json_t *report = report_read(second);
    assert_true(is_in(json_at(report, "where", "stopped"), "grow"));
    assert_string_equal(json_string_value(json_at(report, "reason")), "allocation-limit");
    json_decref(report);
    assert_ptr_equal(stint_report_retain(second), second);
    stint_report_release(second);
    stint_report_release(second);
}

struct target {
    stint_report *report; /* NULL: the profile */
    int fd;
};

static void *write_cancelled(void *arg)
{
    const struct target *target = arg;
    pthread_cancel(pthread_self());
    if (target->report != NULL)
        stint_report_write(target->report, target->fd, STINT_REPORT_TEXT);
    else
        stint_profile_write(target->fd, STINT_PROFILE_PPROF);
    return NULL;
}

/* It reads files of symbols, where a thread may be cancelled. */
TEST(where_a_cancelled_thread_was_writing_others_still_can)
{
    (void)state;
    stint_options options = options_of(STINT_REPORT_STACK, MIB);
    stint_profile_options profile = STINT_PROFILE_OPTIONS_INIT;
    struct target target = { .fd = open("/dev/null", O_WRONLY) };
    assert_int_equal(stint_profile_start(&profile), 0);
    target.report = report_of(grow, &number, &options, STINT_REASON_MEMORY_LIMIT);
    stint_report *report = target.report;
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, write_cancelled, &target), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(stint_report_write(report, target.fd, STINT_REPORT_TEXT), 0);
        assert_int_equal(stint_profile_write(target.fd, STINT_PROFILE_PPROF), 0);
        target.report = NULL;
    }
    assert_int_equal(stint_profile_stop(), 0);
    stint_report_release(report);
    close(target.fd);
}

TEST(a_pool_has_a_level_for_tasks_that_do_not_say_one)
{
    (void)state;
    stint_report *report;
    stint_pool *silent = make_pool(.workers = 1);
    stint_future *future = submit_growing(silent, STINT_REPORT_NONE, MIB);
    assert_int_equal(stint_future_report(future, &report), ENODATA);
    stint_future_release(future);
    stint_pool *pool = make_pool(.workers = 1, .report = STINT_REPORT_STACK);
    future = submit_growing(pool, STINT_REPORT_NONE, MIB);
    assert_int_equal(stint_future_report(future, &report), 0);
    stint_future_release(future);
    json_t *read = report_read(report);
    assert_null(json_object_get(read, "what"));
    json_decref(read);
    stint_report_release(report);
    future = submit_growing(pool, STINT_REPORT_HEAP, MIB);
    assert_int_equal(stint_future_report(future, &report), 0);
    stint_future_release(future);
    read = report_read(report);
    assert_true(number_of(json_at(read, "what", "bytes")) > MIB / 2);
    json_decref(read);
    stint_report_release(report);
    assert_int_equal(stint_pool_destroy(pool), 0);
    assert_int_equal(stint_pool_destroy(silent), 0);
}

static int allocate_much(void *arg, void **value)
{
    (void)value;
    for (int i = 0; i < 5000; i++)
        *(void **)arg = malloc(1000);
    return 0;
}

TEST(a_task_that_ends_ok_or_never_begins_has_none)
{
    (void)state;
    void *block = NULL;
    stint_report *report = NULL;
    stint_pool *pool = make_pool(.workers = 1, .report = STINT_REPORT_HEAP);
    stint_options options = STINT_OPTIONS_INIT;
    options.discard = true;
    stint_future *future = submit(pool, allocate_much, &block, &options);
    assert_int_equal(stint_future_wait(future, NULL), 0);
    assert_int_equal(stint_future_report(future, &report), ENODATA);
    stint_future_release(future);
    block = NULL;
    stint_token *token;
    assert_int_equal(stint_token_create(NULL, &token), 0);
    stint_token_set(token);
    options.token = token;
    future = submit(pool, allocate_much, &block, &options);
    stint_outcome outcome;
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    assert_int_equal(outcome.reason, STINT_REASON_TOKEN);
    assert_int_equal(stint_future_report(future, &report), ENODATA);
    stint_future_release(future);
    options.report = STINT_REPORT_HEAP;
    report = (stint_report *)(uintptr_t)&sink;
    assert_int_equal(stint_run_reported(allocate_much, &block, &options, &outcome, &report), 0);
    assert_int_equal(outcome.reason, STINT_REASON_TOKEN);
    assert_null(report);
    stint_token_release(token);
    assert_null(block);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(a_run_without_a_level_has_none_and_a_plain_run_needs_none)
{
    (void)state;
    stint_options options = options_of(STINT_REPORT_NONE, MIB);
    stint_report *report = (stint_report *)(uintptr_t)&sink;
    stint_outcome outcome;
    assert_int_equal(stint_run_reported(grow, &number, &options, &outcome, &report), 0);
    assert_int_equal(outcome.reason, STINT_REASON_MEMORY_LIMIT);
    assert_null(report);
    assert_int_equal(stint_run_reported(grow, &number, &options, &outcome, &report), 0);
    options.report = STINT_REPORT_HEAP;
    assert_outcome(run_task(grow, &number, &options), STINT_ERROR, STINT_REASON_MEMORY_LIMIT, ENOMEM);
}

static bool release_early;

static int wait_until_told(void *arg, void **value)
{
    (void)value;
    while (!atomic_load((atomic_bool *)arg))
        sched_yield();
    return release_early ? 0 : EBADMSG;
}

TEST(what_is_asked_wrongly_is_refused)
{
    (void)state;
    atomic_bool go_on = false;
    stint_report *report = NULL;
    stint_outcome outcome;
    stint_pool *pool = make_pool(.workers = 1, .report = STINT_REPORT_STACK);
    stint_future *future = submit(pool, wait_until_told, &go_on, NULL);
    assert_int_equal(stint_future_report(future, &report), EAGAIN);
    atomic_store(&go_on, true);
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    assert_int_equal(stint_future_report(NULL, &report), EINVAL);
    assert_int_equal(stint_future_report(future, NULL), EINVAL);
    assert_int_equal(stint_future_report(future, &report), 0);
    assert_int_equal(stint_report_write(NULL, 1, STINT_REPORT_TEXT), EINVAL);
    assert_int_equal(stint_report_write(report, 1, (stint_report_kind)4), EINVAL);
    assert_int_equal(stint_report_write(report, 1, (stint_report_kind)-1), EINVAL);
    assert_int_equal(stint_report_write(report, -1, STINT_REPORT_TEXT), EBADF);
    stint_options options = options_of((stint_report_level)3, 0);
    assert_int_equal(stint_run(do_nothing, NULL, &options, &outcome), EINVAL);
    stint_future *none;
    assert_int_equal(stint_submit(pool, do_nothing, NULL, &options, &none), EINVAL);
    stint_report *nothing;
    assert_int_equal(stint_run_reported(NULL, NULL, NULL, &outcome, &nothing), EINVAL);
    assert_int_equal(stint_run_reported(do_nothing, NULL, NULL, NULL, &nothing), EINVAL);
    assert_int_equal(stint_run_reported(do_nothing, NULL, NULL, &outcome, NULL), EINVAL);
    stint_pool_options pool_options = STINT_POOL_OPTIONS_INIT;
    pool_options.report = (stint_report_level)3;
    stint_pool *refused;
    assert_int_equal(stint_pool_create(&pool_options, &refused), EINVAL);
    stint_future *all;
    assert_int_equal(stint_when_all(&future, 1, &all), 0);
    assert_int_equal(stint_future_wait(all, NULL), 0);
    assert_int_equal(stint_future_report(all, &nothing), ENODATA);
    stint_future_release(all);
    stint_future_release(future);
    stint_report_release(report);
    stint_report_release(NULL);
    assert_null(stint_report_retain(NULL));
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST(a_full_disk_is_reported_and_the_report_can_be_written_again)
{
    (void)state;
    stint_options options = options_of(STINT_REPORT_HEAP, MIB);
    stint_report *report = report_of(grow, &number, &options, STINT_REASON_MEMORY_LIMIT);
    int full = open("/dev/full", O_WRONLY);
    assert_true(full >= 0);
    for (int kind = STINT_REPORT_TEXT; kind <= STINT_REPORT_PPROF; kind++)
        assert_int_equal(stint_report_write(report, full, (stint_report_kind)kind), ENOSPC);
    close(full);
    json_decref(report_read(report));
    stint_report_release(report);
}

static stint_report *to_write;

static int write_in_task(void *arg, void **value)
{
    (void)value;
    return stint_report_write(to_write, *(int *)arg, STINT_REPORT_JSON);
}

TEST(a_report_is_written_in_a_task_that_may_allocate_nothing)
{
    (void)state;
    stint_options options = options_of(STINT_REPORT_HEAP, MIB);
    to_write = report_of(grow, &number, &options, STINT_REASON_MEMORY_LIMIT);
    int file = memfd_create("report", MFD_CLOEXEC);
    options.budget = (stint_budget){ .allocation = 64, .memory = 64 };
    assert_outcome(run_task(write_in_task, &file, &options), STINT_OK, STINT_REASON_NONE, 0);
    assert_true(lseek(file, 0, SEEK_CUR) > 1000);
    close(file);
    stint_report_release(to_write);
}

/* --- A reader that does not read --- */

static int write_report(int descriptor)
{
    return stint_report_write(to_write, descriptor, STINT_REPORT_TEXT);
}

static int write_as_profile(int descriptor)
{
    return stint_report_write(to_write, descriptor, STINT_REPORT_PPROF);
}

static int write_profile(int descriptor)
{
    return stint_profile_write(descriptor, STINT_PROFILE_PPROF);
}

typedef int write_fn(int descriptor);
static write_fn *const writers[] = { write_report, write_as_profile, write_profile, stint_metrics_write };

struct writing {
    write_fn *write;
    int descriptor;
    int error;
};

static void *write_on_thread(void *arg)
{
    struct writing *writing = arg;
    writing->error = writing->write(writing->descriptor);
    return NULL;
}

static int write_as_task(void *arg, void **value)
{
    struct writing *writing = arg;
    (void)value;
    return writing->error = writing->write(writing->descriptor);
}

static void fill(int descriptor)
{
    static const char zeros[4096];
    int flags = fcntl(descriptor, F_GETFL);
    fcntl(descriptor, F_SETFL, flags | O_NONBLOCK);
    while (write(descriptor, zeros, sizeof zeros) > 0)
        ;
    fcntl(descriptor, F_SETFL, flags);
}

static void begin_writing(void)
{
    stint_profile_options profile = STINT_PROFILE_OPTIONS_INIT;
    stint_options options = options_of(STINT_REPORT_HEAP, MIB);
    profile.interval = 4096;
    assert_int_equal(stint_profile_start(&profile), 0);
    to_write = report_of(grow, &number, &options, STINT_REASON_MEMORY_LIMIT);
    assert_int_equal(stint_profile_stop(), 0);
}

TEST(a_reader_that_does_not_read_stops_nobody_but_who_writes_to_it)
{
    (void)state;
    begin_writing();
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < sizeof writers / sizeof *writers; i++) {
        int ends[2];
        pthread_t thread;
        struct writing blocked = { .write = writers[i] };
        assert_int_equal(pipe(ends), 0);
        fill(ends[1]);
        blocked.descriptor = ends[1];
        assert_int_equal(pthread_create(&thread, NULL, write_on_thread, &blocked), 0);
        nap_ms(50);
        int file = memfd_create("other", MFD_CLOEXEC);
        assert_int_equal(writers[i](file), 0);
        assert_true(lseek(file, 0, SEEK_CUR) > 0);
        close(file);
        close(ends[0]);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(blocked.error, EPIPE);
        close(ends[1]);
    }
    stint_report_release(to_write);
}

TEST(a_task_that_writes_to_a_reader_that_does_not_read_has_its_deadline)
{
    (void)state;
    begin_writing();
    stint_pool *pool = make_pool(.workers = 1);
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.wall_ns = 100 * MS;
    for (size_t i = 0; i < 2 * sizeof writers / sizeof *writers; i++) {
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        fill(ends[1]);
        struct writing writing = { .write = writers[i / 2], .descriptor = ends[1] };
        stint_outcome outcome;
        options.on_interrupt = i % 2 == 0 ? STINT_JUMP : STINT_FAIL;
        stint_future *future = submit(pool, write_as_task, &writing, &options);
        assert_int_equal(stint_future_wait(future, &outcome), 0);
        assert_int_equal(outcome.reason, STINT_REASON_DEADLINE);
        assert_int_equal(writing.error, i % 2 == 0 ? 0 : ECANCELED);
        stint_future_release(future);
        close(ends[0]);
        close(ends[1]);
    }
    assert_int_equal(stint_pool_destroy(pool), 0);
    stint_report_release(to_write);
}

/* --- What is left behind --- */

/* Some 28 KiB each: lost memory would show. */
TEST(reports_of_many_tasks_leave_nothing)
{
    (void)state;
    size_t count = (size_t)repeats(2000);
    stint_pool *pool = make_pool(.workers = 2, .report = STINT_REPORT_HEAP);
    size_t before = 0;
    for (size_t i = 0; i < count; i++) {
        if (i == count / 4)
            before = resident();
        stint_future *future = submit_growing(pool, STINT_REPORT_NONE, 100000);
        stint_report *report;
        if (i % 2 == 0) {
            assert_int_equal(stint_future_report(future, &report), 0);
            stint_report_release(report);
        }
        stint_future_release(future);
        stint_outcome outcome;
        stint_options options = options_of(STINT_REPORT_STACK, 0);
        options.budget.allocation = 10000;
        assert_int_equal(stint_run_reported(grow, &number, &options, &outcome, &report), 0);
        stint_report_release(report);
    }
    assert_in_range(resident(), 0, before + 16 * MIB + quarantine_room(100000));
    assert_int_equal(stint_pool_destroy(pool), 0);
}

static jmp_buf outside;

static int jump_out(void *arg, void **value)
{
    (void)arg;
    (void)value;
    longjmp(outside, 1);
}

static int end_thread(void *arg, void **value)
{
    (void)arg;
    (void)value;
    pthread_exit(NULL);
}

static void *run_on_thread(void *fn)
{
    stint_options options = options_of(STINT_REPORT_STACK, 0);
    stint_outcome outcome;
    stint_report *report;
    stint_run_reported(*(stint_fn **)fn, NULL, &options, &outcome, &report);
    return NULL;
}

/* Some 34 KiB each. */
TEST(a_run_that_is_left_by_a_jump_or_with_its_thread_leaves_no_report)
{
    (void)state;
    enum { JUMPS = 2000, THREADS = 600, FIRST = 100 };
    static size_t before;
    stint_fn *ends = end_thread;
    left_by_the_system(0); /* measures */
    for (volatile int i = 0; i < JUMPS; i++) {
        stint_options options = options_of(STINT_REPORT_STACK, 0);
        stint_outcome outcome;
        stint_report *report;
        if (i == FIRST)
            before = resident();
        if (setjmp(outside) == 0)
            stint_run_reported(jump_out, NULL, &options, &outcome, &report);
    }
    assert_in_range(resident(), 0, before + 8 * MIB);
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        if (i == FIRST)
            before = resident();
        assert_int_equal(pthread_create(&thread, NULL, run_on_thread, &ends), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    assert_in_range(resident(), 0, before + 8 * MIB + left_by_the_system(THREADS - FIRST));
}

TEST_MAIN()
