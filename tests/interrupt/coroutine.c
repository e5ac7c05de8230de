/* SPDX-License-Identifier: MIT
 *
 * A task that switches to a stack of its own making: what the scope's stack holds cannot be seen from there, so
 * wherever that stack lies the interrupt waits, and the thread must not end there. */
#include "support.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <threads.h>
#include <ucontext.h>

#define STACK (512 * KIB)

struct coroutine {
    char *stack;
    ucontext_t scope;
    ucontext_t own;
    bool refused;
    bool came_back; /* from qsort */
};

static struct coroutine coroutine;

static void allocate_until_refused(void)
{
    void *block;
    while ((block = keep(stint_malloc(100))) != NULL)
        stint_free(block);
    coroutine.refused = true;
}

static void call_elsewhere(void (*function)(void))
{
    getcontext(&coroutine.own);
    coroutine.own.uc_stack.ss_sp = coroutine.stack;
    coroutine.own.uc_stack.ss_size = STACK;
    coroutine.own.uc_link = &coroutine.scope;
    makecontext(&coroutine.own, function, 0);
    swapcontext(&coroutine.scope, &coroutine.own);
}

static int compare_elsewhere(const void *left, const void *right)
{
    (void)left;
    (void)right;
    call_elsewhere(allocate_until_refused);
    return 0;
}

static int sort(void *unused, void **value)
{
    (void)unused;
    (void)value;
    int numbers[] = { 2, 1 };
    qsort(numbers, 2, sizeof *numbers, compare_elsewhere);
    coroutine.came_back = true;
    return 0;
}

static void *run_sort(void *outcome)
{
    const stint_options options = { .size = sizeof(stint_options), .budget = { .allocation = 64 * KIB } };
    stint_run(sort, NULL, &options, outcome);
    return NULL;
}

/* The thread's stack and the coroutine's, one above the other. */
static void run_with(char *thread_stack, char *coroutine_stack)
{
    coroutine = (struct coroutine){ .stack = coroutine_stack };
    stint_outcome outcome;
    memset(&outcome, 0xa5, sizeof outcome);
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    assert_int_equal(pthread_attr_setstack(&attributes, thread_stack, STACK), 0);
    assert_int_equal(pthread_create(&thread, &attributes, run_sort, &outcome), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
    assert_limit_passed(outcome);
    assert_true(coroutine.refused);
    assert_true(coroutine.came_back);
}

TEST(no_interrupt_jumps_over_libc_from_another_stack)
{
    char *stacks = mmap(NULL, 2 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(stacks, MAP_FAILED);
    run_with(stacks, stacks + STACK);
    run_with(stacks + STACK, stacks);
    munmap(stacks, 2 * STACK);
}

/* --- The end of the thread there: libc unwinds that stack alone, so nobody hears of the scope, which is neither rolled
 * back nor may be watched any more. --- */

static void exit_by_pthread(void)
{
    pthread_exit(NULL);
}

static void exit_by_thrd(void)
{
    thrd_exit(0);
}

static void be_cancelled(void)
{
    pthread_cancel(pthread_self());
    for (;;)
        pause();
}

static void (*const ends[])(void) = { exit_by_pthread, exit_by_thrd, be_cancelled };

static int end_elsewhere(void *end, void **value)
{
    (void)value;
    call_elsewhere(*(void (*const *)(void))end);
    return 0;
}

struct ending {
    void (*const *end)(void);
    bool preemptible;
};

static void *run_to_the_end(void *arg)
{
    const struct ending *ending = arg;
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    options.preemptible = ending->preemptible;
    stint_run(end_elsewhere, (void *)(uintptr_t)ending->end, &options, &outcome);
    return NULL;
}

/* Destructors that libc calls before the library's may come to the frames that have gone. */
static void assert_ends_by_fault(struct ending ending)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit no_core = { 0 };
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGSEGV, SIG_DFL); /* cmocka's */
        alarm(20);
        on_a_thread(run_to_the_end, &ending);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_true(WTERMSIG(status) == SIGABRT || WTERMSIG(status) == SIGSEGV);
}

TEST(a_thread_that_ends_on_another_stack_than_its_task_ends_the_program)
{
    static char stack[STACK] __attribute__((aligned(64)));
#ifdef __SANITIZE_ADDRESS__
    skip_because("AddressSanitizer takes unwound frames for living ones");
#endif
    coroutine.stack = stack;
    for (unsigned i = 0; i < 2 * sizeof ends / sizeof *ends; i++)
        assert_ends_by_fault((struct ending){ .end = &ends[i / 2], .preemptible = i % 2 == 1 });
}

TEST_MAIN()
