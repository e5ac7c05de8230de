/* SPDX-License-Identifier: MIT
 *
 * A C program loads a C++ module for itself (RTLD_LOCAL): only then there is a C++ runtime in the process, and where
 * the program's own symbols are looked up there is none. */
#include <dlfcn.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* --- Its exceptions in frames of the library. First here, where nobody has loaded the unwinder yet. --- */

static int catch_from(int (*call)(void))
{
    int (*caught)(int (*)(void));
    *(void **)&caught = function("catch_from");
    return caught(call);
}

static int run_throwing(void)
{
    stint_outcome outcome;
    stint_options options = STINT_OPTIONS_INIT;
    options.on_interrupt = STINT_FAIL;
    return stint_run(call_plain, function("throw_one"), &options, &outcome);
}

/* A frame would have to be asked, for which the process can load nothing. */
TEST(one_that_leaves_a_task_ends_a_process_without_descriptors_too)
{
    int status;
    function("throw_one");
    pid_t pid = fork();
    if (pid == 0) {
        const struct rlimit none = { 0 };
        setrlimit(RLIMIT_CORE, &none);
        setrlimit(RLIMIT_NOFILE, &none);
        _exit(catch_from(run_throwing));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

static int acquire_nothing(void *unused, void **resource)
{
    *resource = unused;
    return 0;
}

static int throw_in_use(void *unused, void *resource)
{
    (void)unused;
    (void)resource;
    return call_plain(function("throw_one"), NULL);
}

static void count_release(void *count, void *resource)
{
    (void)resource;
    ++*(int *)count;
}

static int released;

static int use_throwing(void)
{
    return stint_with(acquire_nothing, throw_in_use, count_release, &released);
}

TEST(one_that_leaves_a_resource_releases_it)
{
    assert_int_equal(catch_from(use_throwing), -1);
    assert_int_equal(released, 1);
}

static stint_token *token;

static void set_token(void)
{
    stint_token_set(token);
}

static int throw_past_allocations(void *unused, void **value)
{
    (void)unused;
    (void)value;
    void (*fn)(void (*before)(void));
    *(void **)&fn = function("throw_past_allocations");
    fn(set_token);
    stint_checkpoint();
    return 0;
}

/* Before any search for the module's runtime: a destructor allocates after the token was set, where an interrupt
 * would lose count of the exception. */
TEST(its_exception_on_its_way_arrives_first)
{
    const stint_on_interrupt modes[] = { STINT_JUMP, STINT_UNWIND };
    for (size_t i = 0; i < 2; i++) {
        stint_options options = STINT_OPTIONS_INIT;
        assert_int_equal(stint_token_create(NULL, &token), 0);
        options.token = token;
        options.on_interrupt = modes[i];
        stint_outcome outcome = run_task(throw_past_allocations, NULL, &options);
        stint_token_release(token);
        assert_cancelled(outcome, STINT_REASON_TOKEN);
        assert_true(outcome.usage.deferred > 0);
        assert_int_equal(call_status(function("how_many_uncaught"), NULL), 0);
        assert_int_equal(call_status(function("how_many_caught"), NULL), (int)i + 1);
    }
}

static int interrupted_in(void *name, void **value)
{
    (void)value;
    void (*fn)(void (*before)(void));
    *(void **)&fn = function(name);
    fn(set_token);
    return 0;
}

TEST(its_catch_blocks_and_initialisers_are_not_left)
{
    static const char *const names[] = { "allocate_in_catch", "allocate_in_initialiser" };
    assert_int_equal(stint_module_allow("libtest-plugin*"), 0); /* it is left elsewhere */
    for (size_t i = 0; i < 2; i++) {
        stint_options options = STINT_OPTIONS_INIT;
        assert_int_equal(stint_token_create(NULL, &token), 0);
        options.token = token;
        stint_outcome outcome = run_task(interrupted_in, (void *)(uintptr_t)names[i], &options);
        stint_token_release(token);
        assert_cancelled(outcome, STINT_REASON_TOKEN);
        assert_true(outcome.usage.deferred > 0);
        assert_int_equal(call_status(function("is_in_catch"), NULL), 0);
    }
    assert_int_equal(call_status(function("initialised"), NULL), 42);
}

TEST(its_exceptions_and_initialisers_work)
{
    assert_int_equal(call_status(function("use_runtime"), NULL), 0);
    assert_ok(run_task(call_status, function("use_runtime"), NULL));
}

/* One that it brings has an unwinder of its own, so it is left by a jump. */
TEST(it_is_unwound_if_its_runtime_is_shared)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = MIB;
    options.on_interrupt = STINT_UNWIND;
    assert_int_equal(stint_module_allow("libtest-plugin*"), 0);
    assert_limit_passed(run_task(call_plain, function("spend_in_frames"), &options));
    assert_int_equal(call_status(function("how_many_destroyed"), NULL), DESTROYED);
}

TEST_MAIN()
