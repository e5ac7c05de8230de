/* SPDX-License-Identifier: MIT
 *
 * Faults that are no end of a stack, or of a stack that nothing helps any more: they are the program's, and what it
 * hears of them is what it would hear without this library. Each in a child process. */
#include "support.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <ucontext.h>

#define STRAY ((uintptr_t)0x1238)

static volatile bool never;

static __attribute__((noinline)) int recurse(volatile int depth)
{
    return never ? depth : recurse(depth + 1) + depth;
}

static int recurse_for_ever(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return recurse(0);
}

static void check_that_stacks_are_bounded(void)
{
    stint_outcome outcome;
    if (stint_run(recurse_for_ever, NULL, NULL, &outcome) != 0 || outcome.reason != STINT_REASON_STACK)
        _exit(101);
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
    stint_run(write_astray, NULL, NULL, &outcome);
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
    check_that_stacks_are_bounded();
    signal(SIGSEGV, SIG_IGN);
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
    check_that_stacks_are_bounded();
    signal(SIGSEGV, SIG_IGN);
    *(volatile char *)STRAY = 1;
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

static void set_handler(int flags)
{
    struct sigaction action = { .sa_sigaction = hear, .sa_flags = SA_SIGINFO | flags };
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR1);
    sigaction(SIGSEGV, &action, NULL);
}

static void check_what_is_heard(void)
{
    for (volatile int i = 1; i < 10; i++) {
        if (sigsetjmp(back, 1) == 0)
            *(volatile char *)STRAY = 1;
        if (times != i || heard.si_addr != (void *)STRAY || heard.si_code != SEGV_MAPERR || !was_blocked)
            _exit(102);
        check_that_stacks_are_bounded();
    }
    _exit(8);
}

static void set_handler_before(void)
{
    set_handler(0);
    check_that_stacks_are_bounded();
    check_what_is_heard();
}

static void set_handler_after(void)
{
    check_that_stacks_are_bounded();
    set_handler(SA_ONSTACK);
    check_what_is_heard();
}

TEST(a_handler_of_the_programs_hears_of_other_faults)
{
    assert_exits(set_handler_before, 8);
    assert_exits(set_handler_after, 8);
}

static void leave(int number)
{
    _exit(number == SIGSEGV ? 9 : 103);
}

static void see_own_handler(void)
{
    struct sigaction action;
    check_that_stacks_are_bounded();
    if (signal(SIGSEGV, leave) != SIG_DFL || signal(SIGSEGV, leave) != leave ||
        sigaction(SIGSEGV, NULL, &action) != 0 || action.sa_handler != leave || (action.sa_flags & SA_RESTART) == 0)
        _exit(104);
    *(volatile char *)STRAY = 1;
}

TEST(the_program_sees_the_handler_that_it_has_set)
{
    assert_exits(see_own_handler, 9);
}

/* A system call that the signal interrupts. */
static int ends[2];
static atomic_bool reads;
static ssize_t count_read;

static void *read_one(void *unused)
{
    char byte;
    atomic_store(&reads, true);
    count_read = read(ends[0], &byte, 1);
    return unused;
}

static void send_to_reader(void)
{
    pthread_t thread;
    const struct timespec nap = { .tv_nsec = 20000000 };
    if (pipe(ends) != 0 || pthread_create(&thread, NULL, read_one, NULL) != 0)
        _exit(108);
    while (!atomic_load(&reads))
        ;
    for (int i = 0; i < 3; i++) {
        nanosleep(&nap, NULL);
        pthread_kill(thread, SIGSEGV);
    }
    nanosleep(&nap, NULL);
    _exit(write(ends[1], "", 1) == 1 && pthread_join(thread, NULL) == 0 && count_read == 1 ? 12 : 13);
}

static void do_nothing_about_it(int number)
{
    (void)number;
}

static void restart_handled_before(void)
{
    signal(SIGSEGV, do_nothing_about_it);
    check_that_stacks_are_bounded();
    send_to_reader();
}

static void restart_handled_after(void)
{
    check_that_stacks_are_bounded();
    signal(SIGSEGV, do_nothing_about_it);
    send_to_reader();
}

static void restart_ignored(void)
{
    check_that_stacks_are_bounded();
    signal(SIGSEGV, SIG_IGN);
    send_to_reader();
}

static void do_not_restart(void)
{
    const struct sigaction action = { .sa_handler = do_nothing_about_it };
    signal(SIGSEGV, do_nothing_about_it);
    check_that_stacks_are_bounded();
    sigaction(SIGSEGV, &action, NULL);
    send_to_reader();
}

TEST(a_system_call_goes_on_if_the_handler_wants_that)
{
    assert_exits(restart_handled_before, 12);
    assert_exits(restart_handled_after, 12);
    assert_exits(restart_ignored, 12);
    assert_exits(do_not_restart, 13);
}

static void be_called_once(int number)
{
    (void)number;
    times++; /* the same fault comes again */
}

static void reset_by_first(void)
{
    struct sigaction action = { .sa_handler = be_called_once, .sa_flags = (int)SA_RESETHAND };
    check_that_stacks_are_bounded();
    sigaction(SIGSEGV, &action, NULL);
    *(volatile char *)STRAY = 1;
}

TEST(a_handler_for_one_time_is_called_one_time)
{
    assert_ends_by_fault(reset_by_first);
}

/* A page that its handler makes accessible, so that the code goes on. */
static char *volatile closed;
static uintptr_t of_handler;

static __attribute__((noinline)) int use_stack(size_t size)
{
    volatile char *room = __builtin_alloca(size);
    for (size_t i = 0; i < size; i += KIB)
        room[i] = 1;
    return room[0];
}

static void open_it(int number)
{
    sigset_t mask;
    of_handler = (uintptr_t)__builtin_frame_address(0);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    times += use_stack(500 * KIB);
    if (sigismember(&mask, number) == 1 && sigismember(&mask, SIGUSR1) == 0)
        mprotect(closed, 4 * KIB, PROT_READ | PROT_WRITE);
}

static void open_it_with_info(int number, siginfo_t *info, void *context)
{
    if (info->si_addr == closed && ((ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] != 0)
        open_it(number);
}

static double write_to_closed(double a, double b)
{
    closed = mmap(NULL, 4 * KIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    double sum = a * b;
    *(volatile char *)closed = 1;
    return sum + a;
}

static void use_handlers(int flags)
{
    char here;
    struct sigaction action = { .sa_handler = open_it, .sa_flags = flags };
    if ((flags & SA_SIGINFO) != 0)
        action.sa_sigaction = open_it_with_info;
    check_that_stacks_are_bounded();
    sigaction(SIGSEGV, &action, NULL);
    for (int i = 1; i < 10; i++) {
        if (write_to_closed(i, 0.5) != i * 0.5 + i || times != i)
            _exit(105);
        bool is_here = (uintptr_t)&here - of_handler < MIB;
        if (is_here != ((flags & SA_ONSTACK) == 0))
            _exit(106);
        check_that_stacks_are_bounded();
    }
    _exit(10);
}

static void use_plain_handler(void)
{
    use_handlers(0);
}

static void use_handler_with_info(void)
{
    use_handlers(SA_SIGINFO);
}

static void use_handler_on_its_stack(void)
{
    use_handlers(SA_SIGINFO | SA_ONSTACK);
}

TEST(a_handler_has_the_stack_that_it_would_have)
{
    assert_exits(use_plain_handler, 10);
    assert_exits(use_handler_with_info, 10);
}

TEST(the_stack_for_signals_has_room_for_handlers_of_the_programs)
{
    assert_exits(use_handler_on_its_stack, 10);
}

static void fault_in_handler(int number)
{
    struct sigaction action = { .sa_handler = open_it };
    sigaction(SIGSEGV, &action, NULL);
    times += number;
    _exit(write_to_closed(4, 0.5) == 6 ? 11 : 107);
}

static void fault_on_stack_for_signals(void)
{
    const struct sigaction action = { .sa_handler = fault_in_handler, .sa_flags = SA_ONSTACK };
    check_that_stacks_are_bounded();
    sigaction(SIGUSR2, &action, NULL);
    raise(SIGUSR2);
}

TEST(so_has_one_of_a_fault_in_another_handler)
{
    assert_exits(fault_on_stack_for_signals, 11);
}

static int recurse_masked(void *arg, void **value)
{
    (void)arg;
    (void)value;
    stint_mask();
    return recurse(0);
}

static void use_all_of_it(void)
{
    stint_outcome outcome;
    check_that_stacks_are_bounded();
    stint_run(recurse_masked, NULL, NULL, &outcome);
}

static void use_all_of_it_with_handler(void)
{
    signal(SIGSEGV, leave);
    use_all_of_it();
}

TEST(a_stack_that_is_used_up_while_masked_is_the_programs_affair)
{
    assert_ends_by_fault(use_all_of_it);
    assert_exits(use_all_of_it_with_handler, 9);
}

static void recurse_outside(void)
{
    check_that_stacks_are_bounded();
    recurse(0);
}

TEST(so_is_a_recursion_outside_of_scopes)
{
    assert_ends_by_fault(recurse_outside);
}

static ucontext_t of_coroutine;
static ucontext_t of_task;

static void recurse_on_other_stack(void)
{
    recurse(0);
}

static int recurse_in_coroutine(void *arg, void **value)
{
    (void)value;
    getcontext(&of_coroutine);
    of_coroutine.uc_stack = (stack_t){ .ss_sp = arg, .ss_size = 256 * KIB };
    of_coroutine.uc_link = &of_task;
    makecontext(&of_coroutine, recurse_on_other_stack, 0);
    return swapcontext(&of_task, &of_coroutine);
}

static void use_coroutine(void)
{
    stint_outcome outcome;
    char *stack = mmap(NULL, 256 * KIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check_that_stacks_are_bounded();
    mprotect(stack, 64 * KIB, PROT_NONE);
    signal(SIGSEGV, leave);
    stint_run(recurse_in_coroutine, stack, NULL, &outcome);
}

TEST(and_one_on_a_stack_of_the_programs_making)
{
    assert_exits(use_coroutine, 9);
}

TEST_MAIN()
