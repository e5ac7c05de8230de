/* SPDX-License-Identifier: MIT
 *
 * Stops at the return of a function of a coroutine, which has a stack of its own: it goes on in another thread, is not
 * there any more when the thread is stopped again, or lies below the thread's stack. */
#include <pthread.h>
#include <stint/stint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "test.h"

#include "alloc/interrupt/at_return.h"

#define STACK ((size_t)256 << 10)
#define THREAD_STACK ((size_t)1 << 20)
#define MANY 200 /* more than there are stops */

struct coroutine {
    char *stack;
    ucontext_t outside;
    ucontext_t inside;
    int result;
};

/* Where the thread's own stack is. */
struct bounds {
    uintptr_t lowest;
    uintptr_t end;
};

static struct bounds find_bounds(void)
{
    pthread_attr_t attributes;
    void *lowest;
    size_t size;
    assert_int_equal(pthread_getattr_np(pthread_self(), &attributes), 0);
    assert_int_equal(pthread_attr_getstack(&attributes, &lowest, &size), 0);
    pthread_attr_destroy(&attributes);
    return (struct bounds){ (uintptr_t)lowest, (uintptr_t)lowest + size };
}

/* Of the caller, which keeps a frame pointer as it asks for its frame's address. */
#define STOP_AT_RETURN(bounds)                                                                                         \
    sti_at_return_stop((uintptr_t)__builtin_frame_address(0) + sizeof(uintptr_t), (bounds).lowest, (bounds).end)

static struct bounds bounds;
static struct coroutine *switching;

static __attribute__((noinline)) int stop_and_switch(int number)
{
    struct coroutine *coroutine = switching;
    STOP_AT_RETURN(bounds);
    swapcontext(&coroutine->inside, &coroutine->outside);
    return number + 1;
}

static void run_inside(void)
{
    struct coroutine *coroutine = switching;
    coroutine->result = stop_and_switch(41) + 1;
}

static char *map(size_t size)
{
    char *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(mapped, MAP_FAILED);
    return mapped;
}

static void begin_on(struct coroutine *coroutine, char *stack)
{
    coroutine->stack = stack;
    coroutine->result = 0;
    getcontext(&coroutine->inside);
    coroutine->inside.uc_stack.ss_sp = coroutine->stack;
    coroutine->inside.uc_stack.ss_size = STACK;
    coroutine->inside.uc_link = &coroutine->outside;
    makecontext(&coroutine->inside, run_inside, 0);
    switching = coroutine;
    swapcontext(&coroutine->outside, &coroutine->inside);
}

static void begin(struct coroutine *coroutine)
{
    begin_on(coroutine, map(STACK));
}

static void go_on(struct coroutine *coroutine)
{
    swapcontext(&coroutine->outside, &coroutine->inside);
    munmap(coroutine->stack, STACK);
}

static __attribute__((noinline)) int return_stopped(int number)
{
    STOP_AT_RETURN(bounds);
    return number;
}

static int do_nothing(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return 0;
}

static void install_handler(void)
{
    stint_outcome outcome;
    assert_int_equal(stint_run(do_nothing, NULL, NULL, &outcome), 0);
    bounds = find_bounds();
}

static void *on_thread(void *test)
{
    install_handler();
    ((void (*)(void))(uintptr_t)test)();
    return NULL;
}

static void run_on_thread(void (*test)(void))
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, on_thread, (void *)(uintptr_t)test), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static struct coroutine shared;

static void go_on_with_shared(void)
{
    go_on(&shared);
}

TEST(a_coroutine_returns_into_its_stop_on_another_thread)
{
    install_handler();
    begin(&shared);
    run_on_thread(go_on_with_shared);
    assert_int_equal(shared.result, 43);
    for (int i = 0; i < 100; i++)
        assert_int_equal(return_stopped(i), i);
}

static void begin_shared(void)
{
    begin(&shared);
    assert_int_equal(return_stopped(1), 1);
}

TEST(a_coroutine_returns_into_a_stop_of_a_thread_that_has_ended)
{
    install_handler();
    run_on_thread(begin_shared);
    install_handler();
    go_on(&shared);
    assert_int_equal(shared.result, 43);
}

static char *above;

static void stop_after_one_that_is_gone(void)
{
    struct coroutine gone;
    begin_on(&gone, above);
    assert_true((uintptr_t)above >= bounds.end);
    munmap(above, STACK);
    assert_int_equal(return_stopped(7), 7);
}

/* It lies above the thread's, where what is on that is looked for. */
TEST(a_stop_on_a_stack_that_is_gone_is_not_looked_at)
{
    char *stacks = map(THREAD_STACK + STACK);
    above = stacks + THREAD_STACK;
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    assert_int_equal(pthread_attr_setstack(&attributes, stacks, THREAD_STACK), 0);
    assert_int_equal(pthread_create(&thread, &attributes, on_thread, (void *)(uintptr_t)stop_after_one_that_is_gone),
                     0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
    munmap(stacks, THREAD_STACK);
}

static __attribute__((noinline)) int nest_stopped(int depth)
{
    int below = depth > 0 ? nest_stopped(depth - 1) : 0;
    STOP_AT_RETURN(bounds);
    return below + 1;
}

TEST(frames_that_are_gone_are_those_of_the_threads_own_stack)
{
    struct coroutine below;
    install_handler();
    begin(&below); /* of the main thread */
    sti_at_return_forget((uintptr_t)__builtin_frame_address(0));
    assert_int_equal(nest_stopped(10), 11); /* takes another one */
    go_on(&below);
    assert_int_equal(below.result, 43);
}

static bool may_stop(void)
{
    uintptr_t place = 1;
    sti_at_return_stop((uintptr_t)&place, bounds.lowest, bounds.end);
    bool has_stop = place != 1;
    sti_at_return_forget(UINTPTR_MAX);
    return has_stop;
}

TEST(the_stops_of_stacks_that_are_gone_are_used_again)
{
    install_handler();
    bool any = may_stop();
    for (int i = 0; i < MANY; i++) {
        struct coroutine gone;
        begin(&gone);
        munmap(gone.stack, STACK);
    }
    assert_true(may_stop() == any);
    static struct coroutine many[MANY];
    for (int i = 0; i < MANY; i++)
        begin(&many[i]);
    for (int i = 0; i < MANY; i++) {
        go_on(&many[i]);
        assert_int_equal(many[i].result, 43);
    }
    assert_true(may_stop() == any);
}

TEST(the_child_of_a_fork_may_return_into_the_stop_of_a_coroutine)
{
    install_handler();
    run_on_thread(begin_shared);
    install_handler();
    pid_t child = fork();
    if (child == 0) {
        assert_int_equal(return_stopped(1), 1);
        go_on(&shared);
        _exit(shared.result == 43 ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    go_on(&shared);
    assert_int_equal(shared.result, 43);
}

TEST_MAIN()
