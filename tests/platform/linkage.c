/* SPDX-License-Identifier: MIT
 *
 * libc's own functions are found in libc, in their default versions; what the check of the linking says of this
 * program, which is linked well, and which flags are taken. The ways of linking are in tests/linking. */
#include "support.h"

#include <dlfcn.h>

#include "alloc/platform/module.h"

TEST(a_function_is_found_in_libc_in_its_default_version)
{
    static const char *const names[] = {
        "malloc",
        "pthread_mutex_lock",
        "pthread_mutex_clocklock",
        "pthread_rwlock_unlock",
        "pthread_once",
        "mtx_timedlock",
        "call_once",
        "flockfile",
        "pthread_setspecific",
        "pthread_key_delete",
        "realpath",
        "__realpath_chk",
        "qsort",
    };
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    assert_non_null(libc);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_ptr_equal(sti_libc_function(names[i]), dlsym(libc, names[i]));
    dlclose(libc);
    assert_null(sti_libc_function("stint_run"));
    assert_null(sti_libc_function(""));
}

TEST(a_module_defines_what_it_exports_and_not_what_it_uses)
{
    const struct link_map *libc = sti_module_of((const void *)(uintptr_t)abs);
    const struct link_map *own = sti_module_of((const void *)(uintptr_t)sti_libc_function);
    assert_non_null(libc);
    assert_non_null(own);
    assert_ptr_not_equal(libc, own);
    assert_true(sti_module_defines(libc, "qsort"));
    assert_true(sti_module_defines(libc, "memcpy")); /* an indirect function on most processors */
    assert_false(sti_module_defines(own, "qsort"));
    int here = 0;
    assert_null(sti_module_of(&here));
}

TEST(this_program_is_linked_well)
{
    stint_link_report report = STINT_LINK_REPORT_INIT;
    assert_int_equal(stint_link_check(NULL), EINVAL);
    assert_int_equal(stint_link_check(&report), 0);
    assert_int_equal(report.metered, stint_malloc_is_overridden());
    assert_int_equal(report.locked, stint_malloc_is_overridden());
    assert_true(report.unwinds);
    assert_null(report.function);
    assert_null(report.module);
    assert_null(report.off);
}

static int check_in_a_task(void *arg, void **value)
{
    (void)value;
    stint_link_report *reports = arg;
    for (int i = 0; i < 100; i++) {
        if (stint_link_check(&reports[0]) != 0)
            return EINVAL;
    }
    return 0;
}

TEST(a_task_may_ask_and_is_charged_nothing)
{
    stint_link_report report = STINT_LINK_REPORT_INIT;
    stint_outcome outcome = run_task(check_in_a_task, &report, NULL);
    assert_ok(outcome);
    assert_int_equal(report.metered, stint_malloc_is_overridden());
    assert_int_equal(outcome.usage.allocated, 0);
}

TEST(unknown_flags_are_refused_and_the_known_ones_change_nothing)
{
    stint_options options = { .size = sizeof(stint_options), .flags = STINT_COMMIT << 1 };
    stint_pool_options pool_options = { .size = sizeof(stint_pool_options), .workers = 1, .flags = STINT_UNTIMED };
    stint_outcome outcome;
    stint_pool *pool;
    stint_future *future;
    assert_int_equal(stint_run(do_nothing, NULL, &options, &outcome), EINVAL);
    assert_int_equal(stint_pool_create(&pool_options, &pool), EINVAL);
    pool_options.flags = STINT_ALLOW_UNMETERED;
    assert_int_equal(stint_pool_create(&pool_options, &pool), 0);
    assert_int_equal(stint_submit(pool, do_nothing, NULL, &options, &future), EINVAL);
    assert_int_equal(stint_submit_wait(pool, do_nothing, NULL, &options, STINT_FOREVER, &future), EINVAL);
    options.flags = STINT_ALLOW_UNMETERED | STINT_UNTIMED;
    assert_int_equal(stint_submit(pool, do_nothing, NULL, &options, &future), 0);
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    assert_ok(outcome);
    stint_future_release(future);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST_MAIN()
