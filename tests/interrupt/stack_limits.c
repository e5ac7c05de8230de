/* SPDX-License-Identifier: MIT
 *
 * Where the bound of a stack is found: not on another stack, nor on the smallest; again when the limit of the first one
 * has changed; and with room for guards. */
#include "recursing.h"

#include <sys/resource.h>
#include <ucontext.h>

#define BOMBS 8

static __attribute__((noinline)) int recurse_to(uintptr_t end, volatile int depth)
{
    volatile char room[1000];
    room[0] = 1;
    return (uintptr_t)room > end ? recurse_to(end, depth + 1) + room[0] : depth;
}

static void run_on_thread(void *(*function)(void *), void *arg, size_t stack_size)
{
    pthread_t thread;
    pthread_attr_t attributes;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    if (stack_size != 0)
        assert_int_equal(pthread_attr_setstacksize(&attributes, stack_size), 0);
    assert_int_equal(pthread_create(&thread, &attributes, function, arg), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
}

static ucontext_t of_thread;
static ucontext_t of_coroutine;

static void run_on_coroutine(void)
{
    stint_outcome outcome;
    for (int i = 0; i < 3; i++)
        stint_run(do_nothing, NULL, NULL, &outcome);
}

static void *begin_on_coroutine(void *good)
{
    static char stack[256 * KIB];
    stint_outcome outcome;
    getcontext(&of_coroutine);
    of_coroutine.uc_stack = (stack_t){ .ss_sp = stack, .ss_size = sizeof stack };
    of_coroutine.uc_link = &of_thread;
    makecontext(&of_coroutine, run_on_coroutine, 0);
    swapcontext(&of_thread, &of_coroutine);
    *(bool *)good = stint_run(recurse_for_ever, NULL, NULL, &outcome) == 0 && outcome.reason == STINT_REASON_STACK;
    return NULL;
}

TEST(a_thread_whose_first_scope_was_on_another_stack_is_bounded_from_the_next_on)
{
    bool good = false;
    run_on_thread(begin_on_coroutine, &good, MIB);
    assert_true(good);
}

static int exit_code_of(int (*function)(void))
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(function());
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Each in a process of its own: on its first thread, and where what the others have done is undone. */
static int begin_on_coroutine_of_main(void)
{
    bool good = false;
    begin_on_coroutine(&good);
    return good;
}

static bool set_stack_limit(size_t size)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) != 0)
        return false;
    limit.rlim_cur = size;
    return setrlimit(RLIMIT_STACK, &limit) == 0;
}

static int run_bombs(void)
{
    int good = 0;
    stint_outcome outcome;
    for (size_t i = 0; i < BOMBS; i++)
        good += stint_run(recurse_for_ever, NULL, NULL, &outcome) == 0 && outcome.reason == STINT_REASON_STACK;
    return good;
}

static int use_raised_limit(size_t left)
{
    run_bombs();
    if (!set_stack_limit(20 * MIB) || recurse_to((uintptr_t)__builtin_frame_address(0) - 20 * MIB + left, 0) == 0)
        return -1;
    return run_bombs();
}

static int use_some_of_raised_limit(void)
{
    return use_raised_limit(2 * MIB);
}

static int use_all_of_raised_limit(void)
{
    return use_raised_limit(64 * KIB);
}

static int use_lowered_limit(void)
{
    run_bombs();
    return set_stack_limit(2 * MIB) ? run_bombs() : -1;
}

static int lower_limit_at_first(void)
{
    stint_outcome outcome;
    stint_run(do_nothing, NULL, NULL, &outcome);
    return set_stack_limit(2 * MIB) ? run_bombs() : -1;
}

TEST(and_so_is_the_first_one)
{
    assert_int_equal(exit_code_of(begin_on_coroutine_of_main), true);
}

TEST(a_limit_that_is_raised_later_counts_once_it_is_used)
{
    assert_int_equal(exit_code_of(use_some_of_raised_limit), BOMBS);
    assert_int_equal(exit_code_of(use_all_of_raised_limit), BOMBS);
}

TEST(so_does_one_that_is_lowered)
{
    assert_int_equal(exit_code_of(use_lowered_limit), BOMBS);
    assert_int_equal(exit_code_of(lower_limit_at_first), BOMBS);
}

/* Their quarter is less than three pages: libc's guard is all that bounds them. */
static void *run_harmless(void *good)
{
    for (int i = 0; i < 10; i++) {
        stint_outcome outcome;
        *(int *)good += stint_run(do_nothing, NULL, NULL, &outcome) == 0 && outcome.status == STINT_OK;
    }
    return NULL;
}

TEST(a_thread_with_the_smallest_of_stacks_runs_tasks)
{
    static const size_t sizes[] = { 24 * KIB, 32 * KIB, 44 * KIB };
    for (size_t i = 0; i < 3; i++) {
        int good = 0;
        run_on_thread(run_harmless, &good, sizes[i]);
        assert_int_equal(good, 10);
    }
}

static int released_with_much;

static void release_with_much(void *arg)
{
    volatile char room[256 * KIB];
    for (size_t i = 0; i < sizeof room; i += KIB)
        room[i] = 1;
    released_with_much += room[0] + *(int *)arg;
}

static int recurse_with_large_guard(void *arg, void **value)
{
    static int one = 1;
    (void)arg;
    (void)value;
    STINT_GUARD(release_with_much, &one);
    return recurse(0);
}

static void *run_large_guard(void *good)
{
    stint_outcome outcome;
    released_with_much = 0;
    int error = stint_run(recurse_with_large_guard, NULL, NULL, &outcome);
    *(bool *)good = error == 0 && outcome.reason == STINT_REASON_STACK && released_with_much == 2;
    return NULL;
}

static int run_large_guard_on_worker(void *good, void **value)
{
    (void)value;
    run_large_guard(good);
    return 0;
}

TEST(guards_have_room)
{
    bool good = false;
    run_large_guard(&good);
    assert_true(good);
    good = false;
    run_on_thread(run_large_guard, &good, 4 * MIB);
    assert_true(good);
    stint_pool *pool;
    stint_future *future;
    stint_pool_options options = STINT_POOL_OPTIONS_INIT;
    options.workers = 1;
    options.stack_size = 64 * KIB;
    good = false;
    assert_int_equal(stint_pool_create(&options, &pool), 0);
    assert_int_equal(stint_submit(pool, run_large_guard_on_worker, &good, NULL, &future), 0);
    assert_int_equal(stint_future_wait(future, NULL), 0);
    assert_true(good);
    stint_future_release(future);
    assert_int_equal(stint_pool_destroy(pool), 0);
}

TEST_MAIN()
