/* SPDX-License-Identifier: MIT
 *
 * The signals that this library sends to a thread, for a preemption and for a question, the fault of one whose stack is
 * spent, and the signal mask of child processes; see signals.h. */
#include "signals.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "alloc/base/caller.h"
#include "alloc/base/callstack.h"
#include "alloc/base/module.h"
#include "alloc/base/scope_state.h"
#include "alloc/base/stopped.h"
#include "alloc/base/thread.h"
#include "interrupt.h"
#include "stack.h"

/* --- Preemption by signal.
 *
 * The signal is SIGRTMAX - 2, sent with tgkill and only to a thread that is in a preemptible scope. Its handler may
 * find the thread anywhere. So first of all it asks where the interrupted instruction lies: in libc, the loader, the
 * C++ runtime, mimalloc, Concurrency Kit (which runs in the midst of this library's functions), the vDSO or this
 * library it does nothing, because any lock or list of theirs may be half changed; the watch asks again shortly after.
 * Elsewhere none of their code is running at the top of the stack, so this library's state is whole, and what remains
 * is what every sample point asks too: masks, holds, and the walk of the stack, which starts at the interrupted frame.
 * The signal is blocked while its handler runs: to a thread that could not take it for a while many come at once, and
 * none may find another's handler on the stack. A jump out of the handler leaves it blocked until the scope ends.
 *
 * One signal is on its way to a thread at a time. Real-time signals queue, and the kernel puts the handlers of all that
 * wait on the stack before the first of them runs: a thread that got no processor for a while would overflow its stack.
 *
 * Without SA_RESTART a blocking system call returns EINTR, and the code that made it should come to a sample point. */

static int preempt_signal(void)
{
    return SIGRTMAX - 2;
}

static struct sti_stopped stopped_at(const greg_t *registers, const struct sti_scope *scope)
{
    uintptr_t stack_pointer = (uintptr_t)registers[REG_RSP];
    return (struct sti_stopped){
        .at = { .ip = (uintptr_t)registers[REG_RIP], .sp = stack_pointer, .bp = (uintptr_t)registers[REG_RBP] },
        .lowest = stack_pointer,
        .scope = scope->frame,
    };
}

static void on_preemption(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    struct sti_thread *thread = sti_thread_own();
    if (thread == NULL)
        return;
    /* Also between an inner scope's end and the return to the outer one, which will have to be asked again. */
    atomic_store_explicit(&thread->asked, false, memory_order_relaxed);
    if (sti_thread_metered == NULL || !thread->scope->preemptible)
        return;
    const greg_t *registers = ((const ucontext_t *)context)->uc_mcontext.gregs;
    if (sti_caller_is_protected((uintptr_t)registers[REG_RIP]))
        return;
    int saved_errno = errno;
    struct sti_stopped stopped = stopped_at(registers, thread->scope);
    sti_interrupt_preempt(thread, &stopped);
    errno = saved_errno;
}

static int preemption_installed;

static void install_preemption(void)
{
    struct sigaction action = { .sa_sigaction = on_preemption, .sa_flags = SA_SIGINFO };
    sigemptyset(&action.sa_mask);
    preemption_installed = sigaction(preempt_signal(), &action, NULL) == 0 ? 0 : errno;
}

static void the_signal(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, preempt_signal());
}

int sti_preempt_open(struct sti_thread *thread, bool *was_blocked)
{
    static pthread_once_t installed = PTHREAD_ONCE_INIT;
    pthread_once(&installed, install_preemption);
    if (preemption_installed != 0)
        return preemption_installed;
    sigset_t set;
    sigset_t before;
    the_signal(&set);
    int error = pthread_sigmask(SIG_UNBLOCK, &set, &before);
    if (error != 0)
        return error;
    *was_blocked = sigismember(&before, preempt_signal()) == 1;
    /* What a scope before this one was sent has come by now, maybe outside of any scope. */
    atomic_store_explicit(&thread->asked, false, memory_order_relaxed);
    return 0;
}

void sti_preempt_close(bool was_blocked)
{
    sigset_t set;
    the_signal(&set);
    pthread_sigmask(was_blocked ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

void sti_preempt_leave_as_before(sigset_t *set, bool was_blocked)
{
    if (was_blocked)
        sigaddset(set, preempt_signal());
    else
        sigdelset(set, preempt_signal());
}

void sti_preempt_send(struct sti_thread *thread)
{
    if (atomic_exchange_explicit(&thread->asked, true, memory_order_relaxed))
        return;
    if (syscall(SYS_tgkill, getpid(), thread->id, preempt_signal()) != 0)
        atomic_store_explicit(&thread->asked, false, memory_order_relaxed);
}

/* --- Asking a thread what it is doing. The handler takes no lock and allocates nothing; what it looks at is the
 * thread's own, and if that is just being changed by the code it interrupted, the answer is a little wrong. */

static _Thread_local struct sti_ask *mine;
static int question_installed;

static int ask_signal(void)
{
    return SIGRTMAX - 3;
}

static stint_deferral look(const greg_t *registers)
{
    const struct sti_thread *thread = sti_thread_metered;
    if (thread == NULL)
        return STINT_DEFERRAL_NONE;
    stint_deferral deferral = sti_deferral_of(thread->scope);
    if (deferral != STINT_DEFERRAL_NONE)
        return deferral;
    const struct sti_stopped stopped = stopped_at(registers, thread->scope);
    bool is_free = !sti_caller_is_protected(stopped.at.ip) && sti_stopped_may_be_left(&stopped, false);
    return is_free ? STINT_DEFERRAL_NONE : STINT_DEFERRAL_FRAME;
}

static void answer(struct sti_ask *ask, unsigned question, const greg_t *registers)
{
    void *frames[STI_ASK_DEPTH];
    size_t depth = sti_callstack(frames, STI_ASK_DEPTH, (const void *)registers[REG_RIP]);
    stint_deferral deferral = look(registers);
    /* release: after the 0. */
    atomic_store_explicit(&ask->answered, 0, memory_order_relaxed);
    for (size_t i = 0; i < depth; i++)
        atomic_store_explicit(&ask->frames[i], frames[i], memory_order_release);
    atomic_store_explicit(&ask->depth, depth, memory_order_release);
    atomic_store_explicit(&ask->deferral, (int)deferral, memory_order_release);
    atomic_store_explicit(&ask->answered, question, memory_order_release);
}

static void on_question(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    struct sti_ask *ask = mine;
    int saved_errno = errno;
    unsigned question = ask != NULL ? atomic_load_explicit(&ask->question, memory_order_acquire) : 0;
    if (question != 0 && question != atomic_load_explicit(&ask->answered, memory_order_relaxed))
        answer(ask, question, ((const ucontext_t *)context)->uc_mcontext.gregs);
    errno = saved_errno;
}

/* No other handler runs on top of this one: the preemption's might jump over it. */
static void install_question(void)
{
    struct sigaction action = { .sa_sigaction = on_question, .sa_flags = SA_SIGINFO | SA_RESTART };
    sigfillset(&action.sa_mask);
    question_installed = sigaction(ask_signal(), &action, NULL) == 0 ? 0 : errno;
}

int sti_ask_begin(struct sti_ask *ask)
{
    static pthread_once_t installed = PTHREAD_ONCE_INIT;
    pthread_once(&installed, install_question);
    if (question_installed != 0)
        return question_installed;
    ask->id = (int)syscall(SYS_gettid);
    mine = ask;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, ask_signal());
    return pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

void sti_ask_end(void)
{
    mine = NULL;
}

void sti_ask_drop(struct sti_ask *ask)
{
    atomic_store_explicit(&ask->question, 0, memory_order_relaxed);
}

unsigned sti_ask_send(struct sti_ask *ask)
{
    static atomic_uint numbers;
    unsigned question = atomic_fetch_add_explicit(&numbers, 1, memory_order_relaxed) * 2 + 1; /* never 0 */
    atomic_store_explicit(&ask->question, question, memory_order_release);
    return syscall(SYS_tgkill, getpid(), ask->id, ask_signal()) == 0 ? question : 0;
}

bool sti_ask_read(struct sti_ask *ask, unsigned question, struct sti_answer *answer)
{
    if (question == 0 || atomic_load_explicit(&ask->answered, memory_order_acquire) != question)
        return false;
    /* acquire: before the second look. */
    answer->depth = atomic_load_explicit(&ask->depth, memory_order_acquire);
    for (size_t i = 0; i < answer->depth && i < STI_ASK_DEPTH; i++)
        answer->frames[i] = atomic_load_explicit(&ask->frames[i], memory_order_acquire);
    answer->deferral = (stint_deferral)atomic_load_explicit(&ask->deferral, memory_order_acquire);
    return atomic_load_explicit(&ask->answered, memory_order_relaxed) == question;
}

/* --- Faults.
 *
 * SIGSEGV's handler runs on the thread's stack for signals, as there is nothing left of the other. It finds the thread
 * anywhere. Is it a fault of its stack, then there is room now, or the code can be left, or both. To leave it the
 * handler returns, not to where the fault was but to leave_spent, on the landing: the part of the stack that no frame
 * of the task's can be on, as it was of no use until then. So guards run there with the signal mask, and on the stack,
 * that any code of the thread may expect, and the stack for signals is free.
 *
 * A signal frame that finds no room on the stack makes a fault without an address, at the instruction that the other
 * signal has interrupted; that one is lost, and the preemption's is sent again.
 *
 * Any other fault is for whoever had the signal before: a handler is called as if the kernel did, with its mask and
 * flags. If there is none, the default is put back in place, and the handler returns: the instruction makes the same
 * fault again. What somebody has sent would not come again, and is sent once more with all that it said. */

/* What the program has for it now, and had: a handler reads the newest while another may be set. release, acquire: it
 * is read whole. */
#define KEPT_ACTIONS 16
static struct sigaction actions[KEPT_ACTIONS];
static atomic_uint claimed_actions;
static atomic_uint newest_action;
static atomic_bool faults_installed;
static __typeof__(sigaction) *plain_sigaction;
static _Thread_local volatile sig_atomic_t handling_fault;

#define KERNEL_MASK_SIZE ((size_t)8)

static void set_mask(const sigset_t *mask)
{
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, mask, NULL, KERNEL_MASK_SIZE);
}

_Noreturn static void leave_spent(struct sti_thread *thread)
{
    sti_interrupt_leave_stopped(thread);
}

/* A return address of 0 ends every walk there. */
static bool return_to_landing(struct sti_thread *thread, greg_t *registers)
{
    const greg_t direction = 0x400;
    uintptr_t end = sti_stack_open_landing();
    if (end == 0)
        return false;
    uintptr_t *bottom = (uintptr_t *)(end - 3 * sizeof(uintptr_t));
    *bottom = 0;
    registers[REG_RSP] = (greg_t)bottom;
    registers[REG_RBP] = 0;
    registers[REG_RDI] = (greg_t)thread;
    registers[REG_RIP] = (greg_t)(uintptr_t)leave_spent;
    registers[REG_EFL] &= ~direction;
    return true;
}

/* False: the fault is another's, or nothing can be done. */
static bool take_fault(const siginfo_t *info, greg_t *registers)
{
    struct sti_thread *thread = sti_thread_own();
    bool is_of_signal = info->si_code == SI_KERNEL;
    if (thread == NULL || info->si_code <= 0)
        return false;
    uintptr_t stack_pointer = (uintptr_t)registers[REG_RSP];
    uintptr_t address = is_of_signal ? 0 : (uintptr_t)info->si_addr;
    enum sti_stack_fault fault = sti_stack_take_fault(address, stack_pointer, thread->scope != NULL);
    if (is_of_signal)
        atomic_store_explicit(&thread->asked, false, memory_order_relaxed);
    if (fault == STI_STACK_NOT_OURS || fault == STI_STACK_RETURNED)
        return fault == STI_STACK_RETURNED;
    /* Not while the library works for a scope that begins or ends. */
    if (sti_thread_metered != NULL) {
        struct sti_stopped stopped = stopped_at(registers, thread->scope);
        stopped.lowest = sti_stack_lowest();
        sti_interrupt_trip_overflowed(thread, sti_stack_middle());
        if (sti_interrupt_may_leave_stopped(thread, &stopped, fault != STI_STACK_FIRST))
            return return_to_landing(thread, registers);
    }
    return fault != STI_STACK_SPENT;
}

static struct sigaction *action_of_program(void)
{
    return &actions[atomic_load_explicit(&newest_action, memory_order_acquire) % KEPT_ACTIONS];
}

static void restore_default(void)
{
    const struct sigaction action = { .sa_handler = SIG_DFL };
    plain_sigaction(SIGSEGV, &action, NULL);
}

static void pass_on(int number, siginfo_t *info, ucontext_t *context)
{
    struct sigaction action = *action_of_program();
    if (action.sa_handler == SIG_IGN && info->si_code <= 0)
        return;
    if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) {
        restore_default();
        if (info->si_code <= 0)
            syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)syscall(SYS_gettid), number, info);
        return;
    }
    sigset_t mask = context->uc_sigmask;
    sigorset(&mask, &mask, &action.sa_mask);
    if ((action.sa_flags & SA_NODEFER) == 0)
        sigaddset(&mask, number);
    if (((unsigned)action.sa_flags & SA_RESETHAND) != 0)
        action_of_program()->sa_handler = SIG_DFL;
    set_mask(&mask);
    if ((action.sa_flags & SA_SIGINFO) != 0)
        action.sa_sigaction(number, info, context);
    else
        action.sa_handler(number);
}

/* What this handler reads may be broken, too. The process ends, by the same fault again. */
static void say_where(const siginfo_t *info, uintptr_t instruction)
{
    struct dl_find_object found;
    bool is_known = _dl_find_object((void *)instruction, &found) == 0;
    const char *module = is_known ? found.dlfo_link_map->l_name : "";
    uintptr_t begin = is_known ? found.dlfo_link_map->l_addr : 0;
    char line[256];
    int length =
        snprintf(line, sizeof line, "stint: fault at %s+%#lx, of address %p, in the handler of another fault\n", module,
                 (unsigned long)(instruction - begin), info->si_addr);
    if (length > 0)
        (void)!write(STDERR_FILENO, line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
}

static void on_fault(int number, siginfo_t *info, void *interrupted)
{
    ucontext_t *context = interrupted;
    if (handling_fault) {
        say_where(info, (uintptr_t)context->uc_mcontext.gregs[REG_RIP]);
        restore_default();
        return;
    }
    int saved_errno = errno;
    handling_fault = true;
    bool taken = take_fault(info, context->uc_mcontext.gregs);
    handling_fault = false;
    errno = saved_errno;
    if (!taken)
        pass_on(number, info, context);
}

/* The signal itself is let through, for a fault of the handler's. */
static void install_faults(void)
{
    struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };
    sigfillset(&action.sa_mask);
    sigdelset(&action.sa_mask, SIGSEGV);
#if STI_OVERRIDES
    *(void **)&plain_sigaction = sti_libc_function("sigaction");
#else
    plain_sigaction = sigaction;
#endif
    /* First: then it has what to hand on to. */
    bool installed = plain_sigaction(SIGSEGV, NULL, &actions[0]) == 0 && plain_sigaction(SIGSEGV, &action, NULL) == 0;
    atomic_store_explicit(&faults_installed, installed, memory_order_release);
}

bool sti_fault_handler_install(void)
{
    static pthread_once_t installed = PTHREAD_ONCE_INIT;
    pthread_once(&installed, install_faults);
    return atomic_load_explicit(&faults_installed, memory_order_acquire);
}

bool sti_fault_action(const struct sigaction *action, struct sigaction *before)
{
    if (!atomic_load_explicit(&faults_installed, memory_order_acquire))
        return false;
    struct sigaction old = *action_of_program();
    if (action != NULL) {
        unsigned next = atomic_fetch_add_explicit(&claimed_actions, 1, memory_order_relaxed) + 1;
        actions[next % KEPT_ACTIONS] = *action;
        atomic_store_explicit(&newest_action, next, memory_order_release);
    }
    if (before != NULL)
        *before = old;
    return true;
}

/* --- The signal mask of child processes. Calling thread only. --- */

static _Thread_local const struct sti_child_masks *of_thread;

void sti_child_set_masks(const struct sti_child_masks *masks)
{
    of_thread = masks;
}

/* Apart from what nobody can block, and the signal that a preemptible task lets through. */
static void leave_out(sigset_t *set)
{
    sigaddset(set, SIGKILL);
    sigaddset(set, SIGSTOP);
    sti_preempt_leave_as_before(set, true);
}

static bool are_equal(sigset_t a, sigset_t b)
{
    leave_out(&a);
    leave_out(&b);
    int number = 1;
    while (number <= SIGRTMAX && sigismember(&a, number) == sigismember(&b, number))
        number++;
    return number > SIGRTMAX;
}

/* A task that has changed its mask wants the child to have that one. */
const sigset_t *sti_child_mask(const sigset_t *mask)
{
    bool is_own = of_thread != NULL && are_equal(*mask, of_thread->own);
    return is_own && sti_rule_is_on(STI_RULE_CHILD_MASK) ? &of_thread->child : mask;
}

static void set_mask_in_child(void)
{
    sigset_t mask;
    if (of_thread == NULL || pthread_sigmask(SIG_SETMASK, NULL, &mask) != 0)
        return;
    pthread_sigmask(SIG_SETMASK, sti_child_mask(&mask), NULL);
}

__attribute__((constructor)) static void hear_of_forks(void)
{
    pthread_atfork(NULL, NULL, set_mask_in_child);
}
