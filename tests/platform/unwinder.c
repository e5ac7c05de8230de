/* SPDX-License-Identifier: MIT
 *
 * libgcc, which unwinds: a process in which nothing is unwound does not load it for this library's sake. */
#include "support.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>

static bool is_loaded(void)
{
    return dlopen("libgcc_s.so.1", RTLD_LAZY | RTLD_NOLOAD) != NULL;
}

/* --- Where it cannot be loaded: a process without descriptors, or one that has confined itself. --- */

static volatile int blocks_refused;

/* Is left at its limit, and so never sees a block refused. */
static int allocate_until_refused(void *unused, void **value)
{
    (void)unused;
    (void)value;
    while (blocks_refused < 10) {
        void *volatile block = malloc(1000);
        blocks_refused += block == NULL;
    }
    return 0;
}

static int run_past_limit(stint_on_interrupt way, stint_outcome *outcome)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = 1 << 20;
    options.on_interrupt = way;
    return stint_run(allocate_until_refused, NULL, &options, outcome);
}

static bool is_left(stint_on_interrupt way)
{
    stint_outcome outcome;
    return run_past_limit(way, &outcome) == 0 && blocks_refused == 0 && outcome.reason == STINT_REASON_MEMORY_LIMIT;
}

static bool is_refused(stint_on_interrupt way)
{
    stint_outcome outcome;
    return run_past_limit(way, &outcome) == ENOTSUP;
}

static bool is_told_that_tasks_run(bool unwinds)
{
    stint_link_report report = STINT_LINK_REPORT_INIT;
    return stint_link_check(&report) == 0 && report.unwinds == unwinds && report.off == NULL;
}

static int run_without_descriptors(void)
{
    struct rlimit before;
    getrlimit(RLIMIT_NOFILE, &before);
    struct rlimit none = { .rlim_cur = 0, .rlim_max = before.rlim_max };
    setrlimit(RLIMIT_NOFILE, &none);
    if (!is_left(STINT_JUMP))
        return 1;
    if (!is_refused(STINT_UNWIND) || !is_told_that_tasks_run(false))
        return 2;
    setrlimit(RLIMIT_NOFILE, &before);
    return is_left(STINT_UNWIND) && is_told_that_tasks_run(true) ? 0 : 3;
}

TEST(where_the_unwinder_cannot_be_loaded_only_unwinds_are_refused_and_the_next_one_tries_again)
{
    if (!stint_malloc_is_overridden() || is_loaded())
        skip_because("the unwinder was loaded with the program");
    pid_t pid = fork();
    if (pid == 0)
        _exit(run_without_descriptors());
    assert_ends_well(pid);
}

/* --- With the first task that is unwound. --- */

static int look_for_it(void *loaded, void **value)
{
    (void)value;
    *(bool *)loaded = is_loaded();
    return 0;
}

static bool is_loaded_in_task(stint_on_interrupt way)
{
    bool loaded = false;
    stint_outcome outcome;
    stint_options options = STINT_OPTIONS_INIT;
    options.on_interrupt = way;
    assert_int_equal(stint_run(look_for_it, &loaded, &options, &outcome), 0);
    assert_ok(outcome);
    return loaded;
}

/* Sanitizers, and valgrind's own libraries, bring it. */
TEST(the_unwinder_is_loaded_with_the_first_task_that_is_unwound)
{
    if (!stint_malloc_is_overridden() || is_loaded())
        skip_because("the unwinder was loaded with the program");
    assert_false(is_loaded_in_task(STINT_FAIL));
    assert_false(is_loaded_in_task(STINT_JUMP));
    assert_true(is_loaded_in_task(STINT_UNWIND));
    assert_true(is_loaded());
}

/* --- Before that: a thread may have its first record made within an allocation, where nothing may be loaded. --- */

static void *count_alloc(const stint_memprof_allocation *allocation, void *counted)
{
    (void)allocation;
    ++*(atomic_int *)counted;
    return NULL;
}

static void *allocate_some(void *unused)
{
    for (int i = 0; i < 100000; i++) {
        void *volatile block = malloc(100);
        free(block);
    }
    return unused;
}

TEST(a_profile_that_begins_before_the_first_task_sees_threads_that_run_none)
{
    pthread_t thread;
    atomic_int counted = 0;
    stint_memprof_options options = STINT_MEMPROF_OPTIONS_INIT;
    if (!stint_malloc_is_overridden())
        skip_because("malloc is not stint's");
    options.interval = 10000;
    options.rate = 0;
    options.tracker = (stint_memprof_tracker){ count_alloc, NULL, NULL };
    options.arg = &counted;
    assert_int_equal(stint_memprof_start(&options), 0);
    assert_int_equal(pthread_create(&thread, NULL, allocate_some, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(stint_memprof_stop(), 0);
    assert_true(counted > 0);
}

TEST_MAIN()
