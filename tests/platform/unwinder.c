/* SPDX-License-Identifier: MIT
 *
 * libgcc, which unwinds: a process that runs no task does not load it for this library's sake. */
#include "support.h"

#include <dlfcn.h>
#include <stdatomic.h>

static bool is_loaded(void)
{
    return dlopen("libgcc_s.so.1", RTLD_LAZY | RTLD_NOLOAD) != NULL;
}

static int look_for_it(void *loaded, void **value)
{
    (void)value;
    *(bool *)loaded = is_loaded();
    return 0;
}

/* Sanitizers, and valgrind's own libraries, bring it. */
TEST(the_unwinder_is_loaded_with_the_first_task)
{
    bool in_task = false;
    stint_outcome outcome;
    if (!stint_malloc_is_overridden() || is_loaded())
        skip();
    assert_int_equal(stint_run(look_for_it, &in_task, NULL, &outcome), 0);
    assert_true(in_task);
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
        skip();
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
