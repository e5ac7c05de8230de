/* SPDX-License-Identifier: MIT
 *
 * Writing profiles, in every circumstance. What the files hold, for readers other than this library, is
 * profile_reader.sh's. */
#include "profile.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <sys/mman.h>

static int new_file(void)
{
    int fd = memfd_create("profile", MFD_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

/* The contents of a file, ended by a zero; the file is closed. */
static char *contents(int fd)
{
    off_t size = lseek(fd, 0, SEEK_END);
    char *text = test_calloc((size_t)size + 1, 1);
    assert_int_equal(pread(fd, text, (size_t)size, 0), size);
    close(fd);
    return text;
}

/* Where the compiler adds a check for NULL, it may warn of what would follow it. */
__attribute__((no_sanitize("undefined"))) static uint64_t sum_of_lines(const char *collapsed, const char *with)
{
    uint64_t sum = 0;
    const char *end;
    for (; (end = strchr(collapsed, '\n')) != NULL; collapsed = end + 1) {
        const char *space = memrchr(collapsed, ' ', (size_t)(end - collapsed));
        assert_non_null(space);
        if (memmem(collapsed, (size_t)(end - collapsed), with, strlen(with)) != NULL)
            sum += strtoull(space + 1, NULL, 10);
    }
    assert_int_equal(*collapsed, '\0');
    return sum;
}

static bool is_loaded(const char *library)
{
    void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (handle != NULL)
        dlclose(handle);
    return handle != NULL;
}

static int write_and_fail(void *file, void **value)
{
    (void)value;
    stint_free(keep(stint_malloc(100)));
    return stint_profile_write(*(int *)file, STINT_PROFILE_PPROF) == 0 ? -1 : -2;
}

/* The first test: nothing has been written yet. */
TEST(what_writes_profiles_is_loaded_when_the_first_is_written_also_in_a_task_that_fails)
{
    static const char *const libraries[] = { "libdw.so.1", "libelf.so.1", "libprotobuf-c.so.1", "libz.so.1" };
    size_t count = 2000;
    int file = new_file();
    stint_options options = STINT_OPTIONS_INIT;
    options.budget = (stint_budget){ .allocation = 4096, .memory = 4096 };
    (void)state;
    start_profile(4);
    churn(&count, NULL);
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        assert_false(is_loaded(libraries[i]));
    stint_outcome outcome = run_task(write_and_fail, &file, &options);
    assert_outcome(outcome, STINT_ERROR, STINT_REASON_FAILED, -1);
    assert_int_equal(outcome.usage.kept, 0);
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        assert_true(is_loaded(libraries[i]));
    assert_true(lseek(file, 0, SEEK_CUR) > 0);
    close(file);
    for (int i = 0; i < 2; i++) {
        file = new_file();
        assert_int_equal(stint_profile_write(file, i == 0 ? STINT_PROFILE_PPROF : STINT_PROFILE_COLLAPSED), 0);
        assert_true(lseek(file, 0, SEEK_CUR) > 0);
        close(file);
    }
    assert_int_equal(stint_profile_stop(), 0);
}

TEST(collapsed_stacks_have_the_sums_the_functions_and_the_labels)
{
    size_t count = 20000;
    stint_account *account;
    stint_account_limits limits = { .size = sizeof(stint_account_limits), .name = "acme\n;" };
    stint_options options = STINT_OPTIONS_INIT;
    (void)state;
    assert_int_equal(stint_account_create(NULL, &limits, &account), 0);
    options.account = account;
    options.name = "first; task";
    start_profile(4);
    run_task(churn, &count, &options);
    options.name = "second";
    stint_outcome kept = run_task(hold, &count, &options);
    stint_profile_totals totals = totals_now();

    int file = new_file();
    assert_int_equal(stint_profile_write(file, STINT_PROFILE_COLLAPSED), 0);
    char *text = contents(file);
    assert_int_equal(sum_of_lines(text, ""), totals.alloc_bytes);
    uint64_t churned = sum_of_lines(text, "[account acme :];[task first: task];");
    assert_true(churned > 0);
    assert_int_equal(churned, sum_of_lines(text, ";churn "));
    assert_int_equal(sum_of_lines(text, ";[task second];"), totals.alloc_bytes - churned);
    test_free(text);

    file = new_file();
    assert_int_equal(stint_profile_write(file, STINT_PROFILE_COLLAPSED_INUSE), 0);
    text = contents(file);
    assert_int_equal(sum_of_lines(text, ""), totals.inuse_bytes);
    assert_int_equal(sum_of_lines(text, ";hold "), totals.inuse_bytes);
    assert_int_equal(sum_of_lines(text, ";churn "), 0);
    test_free(text);

    assert_int_equal(stint_profile_stop(), 0);
    free_all(kept.value);
    stint_account_release(account);
}

TEST(a_profile_without_callstacks_still_has_tasks)
{
    size_t count = 20000;
    stint_options options = STINT_OPTIONS_INIT;
    stint_profile_options profile = { .size = sizeof(stint_profile_options), .interval = INTERVAL };
    (void)state;
    options.name = "named";
    assert_int_equal(stint_profile_start(&profile), 0);
    run_task(churn, &count, &options);
    int file = new_file();
    assert_int_equal(stint_profile_write(file, STINT_PROFILE_COLLAPSED), 0);
    char *text = contents(file);
    assert_true(sum_of_lines(text, "[task named];[no callstack] ") > 0);
    test_free(text);
    assert_int_equal(stint_profile_stop(), 0);
}

static char *collapsed_now(void)
{
    int file = new_file();
    assert_int_equal(stint_profile_write(file, STINT_PROFILE_COLLAPSED), 0);
    return contents(file);
}

static size_t lines_with(const char *collapsed, const char *with)
{
    size_t lines = 0;
    while ((collapsed = strstr(collapsed, with)) != NULL) {
        lines++;
        collapsed += strlen(with);
    }
    return lines;
}

/* Without callstacks, so that each name makes a line of its own. */
TEST(names_that_never_come_again_are_kept_up_to_a_number_and_the_sums_are_whole)
{
    enum { NAMES = 12000, NAMED_MAX = 8192 };
    size_t count = 20;
    char name[32];
    stint_options options = STINT_OPTIONS_INIT;
    stint_profile_options profile = { .size = sizeof(stint_profile_options), .interval = 16, .seed = 11 };
    (void)state;
    options.name = name;
    assert_int_equal(stint_profile_start(&profile), 0);
    for (int i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "request %d", i);
        run_task(churn, &count, &options);
    }
    char *text = collapsed_now();
    assert_in_range(lines_with(text, "[task request "), NAMED_MAX / 2, NAMED_MAX);
    uint64_t of_first = sum_of_lines(text, "[task request 0];");
    assert_true(of_first > 0);
    test_free(text);
    strcpy(name, "request 0");
    run_task(churn, &count, &options);
    uint64_t charged = totals_now().alloc_bytes;
    text = collapsed_now();
    assert_true(sum_of_lines(text, "[task request 0];") > of_first);
    uint64_t sum = sum_of_lines(text, "");
    assert_in_range(sum, charged - NAMED_MAX - 1, charged + NAMED_MAX + 1); /* each line is rounded */
    test_free(text);
    assert_int_equal(stint_profile_stop(), 0);
}

TEST(a_failed_write_is_reported_and_loses_nothing_else)
{
    size_t count = 20000;
    stint_options options = STINT_OPTIONS_INIT;
    int full = open("/dev/full", O_WRONLY);
    int read_only = open("/dev/null", O_RDONLY);
    (void)state;
    start_profile(6);
    run_task(churn, &count, &options);
    stint_profile_totals before = totals_now();
    for (stint_profile_kind kind = STINT_PROFILE_PPROF; kind <= STINT_PROFILE_COLLAPSED; kind++) {
        assert_int_equal(stint_profile_write(full, kind), ENOSPC);
        assert_int_equal(stint_profile_write(read_only, kind), EBADF);
        assert_int_equal(stint_profile_write(-1, kind), EBADF);
    }
    stint_profile_totals after = totals_now();
    assert_same_totals(&before, &after);
    int file = new_file();
    assert_int_equal(stint_profile_write(file, STINT_PROFILE_COLLAPSED), 0);
    char *text = contents(file);
    assert_int_equal(sum_of_lines(text, ""), after.alloc_bytes);
    test_free(text);
    close(full);
    close(read_only);
    assert_int_equal(stint_profile_stop(), 0);
}

static int write_inside(void *fd, void **value)
{
    (void)value;
    int error = stint_profile_write(*(int *)fd, STINT_PROFILE_PPROF);
    return error != 0 ? error : stint_profile_write(*(int *)fd, STINT_PROFILE_COLLAPSED);
}

TEST(writing_is_charged_to_no_task_and_not_sampled)
{
    size_t count = 20000;
    int file = new_file();
    stint_options options = STINT_OPTIONS_INIT;
    options.budget = (stint_budget){ .allocation = 4096, .memory = 4096 };
    (void)state;
    stint_profile_options profile = {
        .size = sizeof(stint_profile_options), .interval = 8, .callstack_depth = 16, .seed = 1
    };
    assert_int_equal(stint_profile_start(&profile), 0);
    churn(&count, NULL);
    stint_profile_totals before = totals_now();
    stint_outcome outcome = run_task(write_inside, &file, &options);
    stint_profile_totals after = totals_now();
    assert_ok(outcome);
    assert_int_equal(outcome.usage.allocated, 0);
    assert_same_totals(&before, &after);
    assert_true(lseek(file, 0, SEEK_CUR) > 0);
    close(file);
    assert_int_equal(stint_profile_stop(), 0);
}

struct cancelled_writer {
    int file;
    stint_token *token;
};

static int cancel_and_write(void *arg, void **value)
{
    const struct cancelled_writer *writer = arg;
    (void)value;
    stint_token_set(writer->token);
    stint_profile_write(writer->file, STINT_PROFILE_COLLAPSED);
    stint_checkpoint();
    return write(writer->file, "too far", 7) < 0;
}

TEST(an_interrupt_waits_until_the_profile_is_written)
{
    size_t count = 20000;
    struct cancelled_writer writer = { .file = new_file() };
    stint_options options = STINT_OPTIONS_INIT;
    (void)state;
    assert_int_equal(stint_token_create(NULL, &writer.token), 0);
    options.token = writer.token;
    options.preemptible = true;
    start_profile(7);
    run_task(churn, &count, &(stint_options)STINT_OPTIONS_INIT);
    uint64_t bytes = totals_now().alloc_bytes;
    assert_cancelled(run_task(cancel_and_write, &writer, &options), STINT_REASON_TOKEN);
    char *text = contents(writer.file);
    assert_int_equal(sum_of_lines(text, ""), bytes);
    test_free(text);
    stint_token_release(writer.token);
    assert_int_equal(stint_profile_stop(), 0);
}

/* A stack of its own for each path through the tree, so that sites are added all the time. */
static __attribute__((noinline)) void descend(uint64_t path, unsigned depth)
{
    if (depth == 0)
        stint_free(keep(stint_malloc(256)));
    else if (path & 1)
        descend(path >> 1, depth - 1);
    else
        descend(path >> 1, depth - 1);
    __asm__ volatile("" : : : "memory"); /* no tail call */
}

static atomic_bool writing_is_over;

static int wander(void *seed, void **value)
{
    uint64_t random = *(uint64_t *)seed;
    (void)value;
    while (!atomic_load_explicit(&writing_is_over, memory_order_relaxed))
        descend(random_next(&random), 12);
    return random % 2 == 0;
}

static void *wander_in_tasks(void *seed)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    options.name = "wanderer";
    options.budget.allocation = 4 * MIB;
    while (!atomic_load_explicit(&writing_is_over, memory_order_relaxed))
        stint_run(wander, seed, &options, &outcome);
    return NULL;
}

TEST(writing_goes_on_beside_threads_that_allocate)
{
    pthread_t threads[2];
    uint64_t seeds[2] = { 1, 2 };
    uint64_t before = 0;
    (void)state;
    atomic_store(&writing_is_over, false);
    start_profile(9);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wander_in_tasks, &seeds[i]), 0);
    for (int round = 0; round < 5; round++) {
        int file = new_file();
        assert_int_equal(stint_profile_write(file, round % 2 == 0 ? STINT_PROFILE_COLLAPSED : STINT_PROFILE_PPROF), 0);
        char *text = contents(file);
        if (round % 2 == 0) {
            uint64_t bytes = sum_of_lines(text, "");
            assert_true(bytes >= before);
            before = bytes;
        }
        test_free(text);
    }
    atomic_store(&writing_is_over, true);
    for (size_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    stint_profile_totals totals = totals_now();
    assert_true(totals.alloc_bytes >= before);
    assert_int_equal(totals.inuse_bytes, 0);
    assert_int_equal(stint_profile_stop(), 0);
}

static void *start_and_stop(void *unused)
{
    while (!atomic_load_explicit(&writing_is_over, memory_order_relaxed)) {
        stint_profile_options options = { .size = sizeof(stint_profile_options),
                                          .interval = 512,
                                          .callstack_depth = 16 };
        if (stint_profile_start(&options) == 0)
            stint_profile_stop();
    }
    return unused;
}

TEST(starts_stops_and_writes_of_several_threads_do_no_harm)
{
    pthread_t threads[3];
    uint64_t seed = 3;
    (void)state;
    start_profile(10);
    assert_int_equal(stint_profile_stop(), 0);
    atomic_store(&writing_is_over, false);
    assert_int_equal(pthread_create(&threads[0], NULL, start_and_stop, NULL), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, start_and_stop, NULL), 0);
    assert_int_equal(pthread_create(&threads[2], NULL, wander_in_tasks, &seed), 0);
    for (int round = 0; round < 5; round++) {
        int file = new_file();
        assert_int_equal(stint_profile_write(file, STINT_PROFILE_COLLAPSED), 0);
        char *text = contents(file);
        sum_of_lines(text, "");
        test_free(text);
    }
    atomic_store(&writing_is_over, true);
    for (size_t i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(stint_profile_stop(), EINVAL);
}

TEST_MAIN()
