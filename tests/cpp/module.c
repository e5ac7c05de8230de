/* SPDX-License-Identifier: MIT
 *
 * A C program loads a C++ module for itself (RTLD_LOCAL): only then there is a C++ runtime in the process, and where the
 * program's own symbols are looked up there is none. */
#include <dlfcn.h>

#include "../support.h"

static void *function(const char *name)
{
    static void *module;
    if (module == NULL)
        module = dlopen(PLUGIN, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(module);
    void *found = dlsym(module, name);
    assert_non_null(found);
    return found;
}

static int call_status(void *called, void **value)
{
    (void)value;
    int (*fn)(void);
    *(void **)&fn = called;
    return fn();
}

static int call_plain(void *called, void **value)
{
    (void)value;
    void (*fn)(void);
    *(void **)&fn = called;
    fn();
    return 0;
}

static void its_exceptions_and_initialisers_work(void **state)
{
    (void)state;
    assert_int_equal(call_status(function("use_runtime"), NULL), 0);
    assert_ok(run_task(call_status, function("use_runtime"), NULL));
}

static void it_is_unwound(void **state)
{
    (void)state;
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = MIB;
    options.on_interrupt = STINT_UNWIND;
    assert_limit_passed(run_task(call_plain, function("spend_in_frames"), &options));
    assert_int_equal(call_status(function("how_many_destroyed"), NULL), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_exceptions_and_initialisers_work),
        cmocka_unit_test(it_is_unwound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
