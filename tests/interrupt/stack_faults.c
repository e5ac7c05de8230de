/* SPDX-License-Identifier: MIT
 *
 * A fault that is not the end of a worker's stack is the program's: its handler gets the fault, if it was set before
 * the first pool; otherwise the process ends. Each in a child process. */
#include "recursing.h"

#define STRAY ((uintptr_t)0x1238)

static stint_pool *pool;

static void submit(stint_fn *function, stint_outcome *outcome)
{
    stint_future *future;
    if (pool == NULL && stint_pool_create(NULL, &pool) != 0)
        _exit(101);
    if (stint_submit(pool, function, NULL, NULL, &future) != 0 || stint_future_wait(future, outcome) != 0)
        _exit(102);
    stint_future_release(future);
}

static void check_that_stacks_are_bounded(void)
{
    stint_outcome outcome;
    submit(recurse_for_ever, &outcome);
    if (outcome.reason != STINT_REASON_STACK)
        _exit(103);
}

/* cmocka has a handler of its own. */
static int status_of(void (*function)(void))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        function();
        _exit(100);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void assert_ends_by_fault(void (*function)(void))
{
    int status = status_of(function);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
}

static void assert_exits(void (*function)(void), int code)
{
    int status = status_of(function);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), code);
}

static int write_astray(void *arg, void **value)
{
    (void)arg;
    (void)value;
    *(volatile char *)STRAY = 1;
    return 0;
}

static void write_astray_in_task(void)
{
    stint_outcome outcome;
    check_that_stacks_are_bounded();
    submit(write_astray, &outcome);
}

TEST(a_stray_write_in_a_task_ends_the_process)
{
    assert_ends_by_fault(write_astray_in_task);
}

static void send_it(void)
{
    check_that_stacks_are_bounded();
    raise(SIGSEGV);
}

TEST(the_signal_ends_the_process_when_it_was_sent)
{
    assert_ends_by_fault(send_it);
}

static void send_it_ignored(void)
{
    signal(SIGSEGV, SIG_IGN);
    check_that_stacks_are_bounded();
    raise(SIGSEGV);
    check_that_stacks_are_bounded();
    _exit(7);
}

TEST(it_is_ignored_where_the_program_wants_that)
{
    assert_exits(send_it_ignored, 7);
}

static void fault_ignored(void)
{
    stint_outcome outcome;
    signal(SIGSEGV, SIG_IGN);
    submit(write_astray, &outcome);
}

TEST(but_not_a_fault)
{
    assert_ends_by_fault(fault_ignored);
}

static sigjmp_buf back;
static siginfo_t heard;
static volatile int times;
static volatile bool was_blocked;

static void hear(int number, siginfo_t *info, void *context)
{
    sigset_t mask;
    (void)context;
    heard = *info;
    times++;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    was_blocked = sigismember(&mask, number) == 1 && sigismember(&mask, SIGUSR1) == 1;
    siglongjmp(back, 1);
}

static int come_back_from_handler(void *arg, void **value)
{
    (void)arg;
    (void)value;
    if (sigsetjmp(back, 1) == 0)
        *(volatile char *)STRAY = 1;
    return heard.si_addr == (void *)STRAY && heard.si_code == SEGV_MAPERR && was_blocked ? 0 : EINVAL;
}

static void set_handler_and_hear(void)
{
    struct sigaction action = { .sa_sigaction = hear, .sa_flags = SA_SIGINFO };
    stint_outcome outcome;
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR1);
    sigaction(SIGSEGV, &action, NULL);
    for (int i = 1; i < 10; i++) {
        submit(come_back_from_handler, &outcome);
        if (outcome.status != STINT_OK || times != i)
            _exit(104);
        check_that_stacks_are_bounded();
    }
    _exit(8);
}

TEST(a_handler_of_the_programs_hears_of_other_faults)
{
    assert_exits(set_handler_and_hear, 8);
}

static void write_in_release(void *unused)
{
    (void)unused;
    *(volatile char *)STRAY = 1;
}

static int fault_in_release(void *arg, void **value)
{
    (void)value;
    STINT_GUARD(write_in_release, arg);
    return recurse(0);
}

static void guard_with_fault(void)
{
    stint_outcome outcome;
    submit(fault_in_release, &outcome);
}

TEST(a_fault_of_a_guards_on_the_alternate_stack_ends_the_process)
{
    assert_ends_by_fault(guard_with_fault);
}

static int recurse_on_a_thread_of_its_own(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return recurse(0);
}

static void recurse_here(void)
{
    stint_outcome outcome;
    check_that_stacks_are_bounded();
    stint_run(recurse_on_a_thread_of_its_own, NULL, NULL, &outcome);
}

TEST(the_end_of_another_threads_stack_is_the_programs)
{
    assert_ends_by_fault(recurse_here);
}

TEST_MAIN()
