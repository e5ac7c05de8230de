/* SPDX-License-Identifier: MIT
 *
 * A task that switches to a stack of its own making: what the scope's stack holds cannot be seen from there, so
 * wherever that stack lies the interrupt waits. */
#include "support.h"

#include <sys/mman.h>
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

static int compare_elsewhere(const void *left, const void *right)
{
    (void)left;
    (void)right;
    getcontext(&coroutine.own);
    coroutine.own.uc_stack.ss_sp = coroutine.stack;
    coroutine.own.uc_stack.ss_size = STACK;
    coroutine.own.uc_link = &coroutine.scope;
    makecontext(&coroutine.own, allocate_until_refused, 0);
    swapcontext(&coroutine.scope, &coroutine.own);
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

TEST_MAIN()
