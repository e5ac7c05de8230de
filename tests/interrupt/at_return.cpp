/* SPDX-License-Identifier: MIT
 *
 * Stops at the return of a function: it returns as if there were none, exceptions and walks pass through, and a jump
 * over it does no harm. */
#include <pthread.h>
#include <setjmp.h>
#include <stint/stint.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unwind.h>

#include "test.h"

extern "C" {
#include "alloc/interrupt/at_return.h"
}

static volatile int stopped;

/* Of the caller, which keeps a frame pointer as it asks for its frame's address. */
#define STOP_AT_RETURN()                                                                                               \
    do {                                                                                                               \
        stopped++;                                                                                                     \
        sti_at_return_stop((uintptr_t)__builtin_frame_address(0) + sizeof(uintptr_t), 0, UINTPTR_MAX);                 \
    } while (0)

static __attribute__((noinline)) double give_back(int a, double b)
{
    STOP_AT_RETURN();
    return a + b;
}

static int have_handler(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return 0;
}

static void install_handler()
{
    stint_outcome outcome;
    assert_int_equal(stint_run(have_handler, nullptr, nullptr, &outcome), 0);
}

TEST(what_is_returned_arrives)
{
    install_handler();
    for (int i = 0; i < 1000; i++)
        assert_true(give_back(i, 0.5) == i + 0.5);
}

struct counts_end {
    int *count;
    ~counts_end()
    {
        ++*count;
    }
};

static __attribute__((noinline)) void throw_it(int number)
{
    STOP_AT_RETURN();
    throw number;
}

static __attribute__((noinline)) void pass_it_on(int number, int *ends)
{
    counts_end end = { ends };
    throw_it(number);
}

TEST(an_exception_passes_through_it)
{
    volatile int caught = 0;
    int ends = 0;
    install_handler();
    for (int i = 1; i <= 100; i++) {
        try {
            throw_it(i); /* caught where it would return to */
        } catch (int number) {
            caught += number == i;
        }
        try {
            pass_it_on(i, &ends);
        } catch (int number) {
            caught += number == i;
        }
    }
    assert_int_equal(caught, 200);
    assert_int_equal(ends, 100);
}

/* In the second phase of an exception whose handler was found in the first: in a cleanup on its way to there. */
struct stops_at_end {
    uintptr_t place;
    ~stops_at_end()
    {
        stopped++;
        sti_at_return_stop(place, 0, UINTPTR_MAX);
    }
};

static __attribute__((noinline)) void throw_and_stop(int number)
{
    stops_at_end end = { (uintptr_t)__builtin_frame_address(0) + sizeof(uintptr_t) };
    throw_it(number + (end.place == 0));
}

TEST(a_stop_may_be_made_while_an_exception_is_on_its_way)
{
    volatile int caught = 0;
    install_handler();
    for (int i = 1; i <= 100; i++) {
        try {
            throw_and_stop(i);
        } catch (int number) {
            caught += number == i;
        }
    }
    assert_int_equal(caught, 100);
}

struct seen {
    uintptr_t caller;
    bool found;
};

static _Unwind_Reason_Code look(struct _Unwind_Context *context, void *argument)
{
    seen *seen = static_cast<struct seen *>(argument);
    seen->found = seen->found || _Unwind_GetIP(context) == seen->caller;
    return _URC_NO_REASON;
}

static __attribute__((noinline)) bool finds_caller()
{
    seen seen = { (uintptr_t)__builtin_extract_return_addr(__builtin_return_address(0)), false };
    STOP_AT_RETURN();
    _Unwind_Backtrace(look, &seen);
    return seen.found;
}

TEST(a_walk_passes_through_it)
{
    install_handler();
    assert_true(finds_caller());
}

static jmp_buf landing;

static __attribute__((noinline)) void jump_away()
{
    STOP_AT_RETURN();
    longjmp(landing, 1);
}

TEST(a_jump_over_it_does_no_harm)
{
    install_handler();
    for (volatile int i = 0; i < 1000; i++) {
        if (setjmp(landing) == 0)
            jump_away();
        assert_true(give_back(i, 0.5) == i + 0.5);
    }
}

static __attribute__((noinline)) double nest(int depth)
{
    STOP_AT_RETURN();
    return depth == 0 ? 0.5 : nest(depth - 1) + 1;
}

TEST(it_is_moved_to_the_innermost_one)
{
    install_handler();
    assert_true(nest(100) == 100.5);
}

static void *return_on_thread(void *good)
{
    install_handler();
    for (int i = 0; i < 1000; i++)
        *static_cast<bool *>(good) = *static_cast<bool *>(good) && give_back(i, 0.5) == i + 0.5;
    return nullptr;
}

/* Those that find no stop left go on without. */
TEST(many_threads_have_their_own)
{
    pthread_t threads[100];
    bool good[100];
    for (size_t i = 0; i < 100; i++) {
        good[i] = true;
        assert_int_equal(pthread_create(&threads[i], nullptr, return_on_thread, &good[i]), 0);
    }
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(pthread_join(threads[i], nullptr), 0);
        assert_true(good[i]);
    }
    assert_true(stopped > 0);
}

static pthread_barrier_t barrier;

static void *hold_a_stop(void *unused)
{
    STOP_AT_RETURN();
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return unused;
}

static bool may_stop()
{
    uintptr_t place = 1;
    sti_at_return_stop((uintptr_t)&place, 0, UINTPTR_MAX);
    bool has_stop = place != 1;
    sti_at_return_forget(UINTPTR_MAX);
    return has_stop;
}

/* None is left here, and in the child all but its own are. */
TEST(the_stops_of_others_are_not_those_of_a_child)
{
    install_handler();
    bool any = may_stop();
    pthread_t threads[100];
    pthread_barrier_init(&barrier, nullptr, 101);
    for (auto &thread : threads)
        assert_int_equal(pthread_create(&thread, nullptr, hold_a_stop, nullptr), 0);
    pthread_barrier_wait(&barrier);
    assert_false(may_stop());
    pid_t child = fork();
    if (child == 0)
        _exit(may_stop() == any ? 0 : 1);
    pthread_barrier_wait(&barrier);
    for (auto thread : threads)
        pthread_join(thread, nullptr);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

TEST_MAIN()
