/* SPDX-License-Identifier: MIT
 *
 * Callstacks are those that libgcc's unwinder sees, whatever stack and code they are taken on. */
#include "support.h"

#include <alloca.h>
#include <signal.h>
#include <ucontext.h>
#include <unwind.h>

#include "alloc/platform/caller.h"
#include "alloc/platform/callstack.h"

#define DEPTH 256

/* Both callstacks of one place. */
struct comparison {
    void *ours[DEPTH];
    size_t our_length;
    void *theirs[DEPTH];
    size_t their_length;
    const void *caller;
    bool reached;
};

static _Unwind_Reason_Code note_frame(struct _Unwind_Context *context, void *arg)
{
    struct comparison *comparison = arg;
    void *address = (void *)_Unwind_GetIP(context);
    comparison->reached = comparison->reached || address == comparison->caller;
    if (comparison->reached && address != NULL && comparison->their_length < DEPTH)
        comparison->theirs[comparison->their_length++] = address;
    return _URC_NO_REASON;
}

typedef void compare_fn(struct comparison *comparison);

static void compare_here(struct comparison *comparison)
{
    memset(comparison, 0, sizeof *comparison);
    comparison->caller = STI_CALLER();
    comparison->our_length = sti_callstack(comparison->ours, DEPTH, comparison->caller);
    _Unwind_Backtrace(note_frame, comparison);
}

/* Through a pointer: it is not inlined. */
static compare_fn *volatile compare = compare_here;

static void assert_same(const struct comparison *comparison, size_t least)
{
    assert_true(comparison->our_length >= least);
    assert_int_equal(comparison->our_length, comparison->their_length);
    for (size_t i = 0; i < comparison->our_length; i++)
        assert_ptr_equal(comparison->ours[i], comparison->theirs[i]);
}

static void recurse(struct comparison *comparison, unsigned depth);
static void (*volatile next_recursion)(struct comparison *, unsigned) = recurse;

/* Frames with and without a frame pointer, and of many sizes. */
static void recurse(struct comparison *comparison, unsigned depth)
{
    volatile char *space = depth % 3 == 0 ? alloca(depth * 10 + 1) : NULL;
    if (space != NULL)
        space[0] = 1;
    if (depth == 0)
        compare(comparison);
    else
        next_recursion(comparison, depth - 1);
    keep(comparison); /* no tail call */
}

TEST(a_deep_stack_is_followed_to_its_end)
{
    static struct comparison comparison;
    for (unsigned depth = 0; depth < 200; depth += 7) {
        next_recursion(&comparison, depth);
        assert_same(&comparison, depth + 2);
    }
}

static void with_a_large_frame(struct comparison *comparison)
{
    volatile char large[300000];
    large[0] = 1;
    compare(comparison);
    large[1] = large[0];
}

TEST(a_large_frame_is_followed)
{
    static struct comparison comparison;
    with_a_large_frame(&comparison);
    assert_same(&comparison, 3);
}

static struct comparison *of_comparator;

static int compare_ints(const void *a, const void *b)
{
    compare(of_comparator);
    return *(const int *)a - *(const int *)b;
}

TEST(libc_in_between_is_followed)
{
    static struct comparison comparison;
    int numbers[] = { 3, 1, 2, 5, 4, 9, 7 };
    of_comparator = &comparison;
    qsort(numbers, sizeof numbers / sizeof numbers[0], sizeof numbers[0], compare_ints);
    assert_same(&comparison, 4);
}

static ucontext_t main_context;
static struct comparison of_coroutine;

static void run_coroutine(void)
{
    next_recursion(&of_coroutine, 20);
}

TEST(a_coroutines_stack_is_followed)
{
    ucontext_t coroutine;
    const size_t size = 256 * KIB;
    void *stack = malloc(size);
    assert_int_equal(getcontext(&coroutine), 0);
    coroutine.uc_stack.ss_sp = stack;
    coroutine.uc_stack.ss_size = size;
    coroutine.uc_link = &main_context;
    makecontext(&coroutine, run_coroutine, 0);
    assert_int_equal(swapcontext(&main_context, &coroutine), 0);
    assert_same(&of_coroutine, 22);
    free(stack);
}

static struct comparison of_handler;

static void handle(int number)
{
    (void)number;
    next_recursion(&of_handler, 5);
}

TEST(a_signals_frame_on_another_stack_is_followed)
{
    const size_t size = 256 * KIB;
    stack_t other = { .ss_sp = malloc(size), .ss_size = size };
    struct sigaction action = { .sa_handler = handle, .sa_flags = SA_ONSTACK };
    assert_int_equal(sigaltstack(&other, NULL), 0);
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    raise(SIGUSR1);
    assert_same(&of_handler, 9);
    other.ss_flags = SS_DISABLE;
    sigaltstack(&other, NULL);
    signal(SIGUSR1, SIG_DFL);
    free(other.ss_sp);
}

TEST(the_depth_bounds_it)
{
    void *frames[4] = { NULL };
    assert_int_equal(sti_callstack(frames, 0, STI_CALLER()), 0);
    assert_int_equal(sti_callstack(frames, 1, STI_CALLER()), 1);
    assert_ptr_equal(frames[0], STI_CALLER());
    assert_null(frames[1]);
}

TEST_MAIN()
