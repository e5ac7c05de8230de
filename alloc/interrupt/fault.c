/* SPDX-License-Identifier: MIT
 *
 * The fault of a thread whose stack is spent, and of all others, which are handed on, to the handlers that the program
 * sets; see fault.h. */
#include "fault.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stint/api.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "alloc/base/callstack.h"
#include "alloc/base/module.h"
#include "alloc/base/thread.h"
#include "at_return.h"
#include "interrupt.h"
#include "signals.h"
#include "stack.h"

/* --- Faults.
 *
 * SIGSEGV's handler runs on the thread's stack for signals, as there is nothing left of the other. It finds the thread
 * anywhere. Is it a fault of its stack, then there is room now, or the code can be left, or both. To leave it the
 * handler returns, not to where the fault was but to leave_spent, on the landing: the part of the stack that no frame
 * of the task's can be on, as it was of no use until then. So guards run there with the signal mask, and on the stack,
 * that any code of the thread may expect, and the stack for signals is free.
 *
 * Code that cannot be left and has room now goes on, in the midst of libc as a rule. Where it returns to code that may
 * be left it is asked again, by a fault that has been made there (at_return.h): it may be that all of a recursion's
 * faults are in what is called at each level.
 *
 * A signal frame that finds no room on the stack makes a fault without an address, at the instruction that the other
 * signal has interrupted; that one is lost, and the preemption's is sent again.
 *
 * Any other fault is for whoever had the signal before: a handler is called as if the kernel did, with its mask and
 * flags. On the stack for signals if it wants that, or if there is no room elsewhere. Otherwise the frame that the
 * kernel has made for this handler is copied to where it would have made one for that, and the return from this one
 * leads there. If there is none, the default is put back in place, and the handler returns: the instruction makes the
 * same fault again. What somebody has sent would not come again, and is sent once more with all that it said. */

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
#define DIRECTION ((greg_t)0x400) /* a flag, which functions expect to be clear */

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
    uintptr_t end = sti_stack_open_landing();
    if (end == 0)
        return false;
    uintptr_t *bottom = (uintptr_t *)(end - 3 * sizeof(uintptr_t));
    *bottom = 0;
    registers[REG_RSP] = (greg_t)bottom;
    registers[REG_RBP] = 0;
    registers[REG_RDI] = (greg_t)thread;
    registers[REG_RIP] = (greg_t)(uintptr_t)leave_spent;
    registers[REG_EFL] &= ~DIRECTION;
    return true;
}

enum way { LEFT, GOES_ON, STUCK };

/* Not while the library works for a scope that begins or ends. Code that goes on is asked again where it returns to
 * what may be left. */
static enum way leave(struct sti_thread *thread, greg_t *registers, bool at_last)
{
    if (sti_thread_metered == NULL)
        return GOES_ON;
    struct sti_registers stopped = sti_signal_stopped_at(registers);
    if (sti_interrupt_may_leave_stopped(thread, &stopped, at_last))
        return return_to_landing(thread, registers) ? LEFT : STUCK;
    uintptr_t place = sti_at_return_place(&stopped, thread->scope->frame);
    if (place != 0)
        sti_at_return_stop(place, sti_stack_lowest(), sti_stack_highest());
    return GOES_ON;
}

static void trip(struct sti_thread *thread, const greg_t *registers)
{
    struct sti_registers stopped = sti_signal_stopped_at(registers);
    thread->stopped = &stopped;
    sti_interrupt_trip_overflowed(thread, sti_stack_middle());
    thread->stopped = NULL;
}

static void take_return(greg_t *registers, uintptr_t to)
{
    struct sti_thread *thread = sti_thread_own();
    registers[REG_RIP] = (greg_t)to;
    if (thread != NULL && thread->scope != NULL)
        leave(thread, registers, sti_stack_is_nearly_spent());
}

/* False: the fault is another's, or nothing can be done. */
static bool take_fault(const siginfo_t *info, greg_t *registers)
{
    struct sti_thread *thread = sti_thread_own();
    bool is_of_signal = info->si_code == SI_KERNEL;
    uintptr_t to = is_of_signal ? sti_at_return_take((uintptr_t)registers[REG_RIP]) : 0;
    if (to != 0) {
        take_return(registers, to);
        return true;
    }
    if (thread == NULL || info->si_code <= 0)
        return false;
    uintptr_t stack_pointer = (uintptr_t)registers[REG_RSP];
    uintptr_t address = is_of_signal ? 0 : (uintptr_t)info->si_addr;
    enum sti_stack_fault fault = sti_stack_take_fault(address, stack_pointer, thread->scope != NULL);
    if (is_of_signal)
        atomic_store_explicit(&thread->asked, false, memory_order_relaxed);
    if (fault == STI_STACK_NOT_OURS || fault == STI_STACK_RETURNED)
        return fault == STI_STACK_RETURNED;
    if (sti_thread_metered != NULL)
        trip(thread, registers);
    enum way way = leave(thread, registers, fault != STI_STACK_FIRST);
    return way == LEFT || (way == GOES_ON && fault != STI_STACK_SPENT);
}

void sti_fault_ask_at_return(void)
{
    struct sti_thread *thread = sti_thread_metered;
    if (thread == NULL)
        return;
    struct sti_registers stopped = sti_registers_here();
    uintptr_t place = sti_at_return_place(&stopped, thread->scope->frame);
    if (place != 0)
        sti_at_return_stop(place, sti_stack_lowest(), sti_stack_highest());
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

/* What the kernel puts on the stack for a handler: this; the ucontext_t, of which libc's headers have a larger one; the
 * siginfo_t. And above all that the state of the floating point unit, of which its own head says how large it is. */
struct signal_frame {
    void *restorer;
    ucontext_t context;
};

#define RED_ZONE ((uintptr_t)128)
#define FRAME_SIZE_MAX ((size_t)2048)
#define FLOATS_ALIGNMENT ((uintptr_t)64)
#define FLOATS_PLAIN ((size_t)512)
#define FLOATS_SAY_AT 464 /* a number that says that their size comes next */
#define FLOATS_SAY UINT32_C(0x46505853)

static size_t size_of_floats(const void *floats)
{
    uint32_t said[2];
    if (floats == NULL)
        return 0;
    memcpy(said, (const char *)floats + FLOATS_SAY_AT, sizeof said);
    return said[0] == FLOATS_SAY ? said[1] : FLOATS_PLAIN;
}

/* False: it has to be called here. */
static bool return_to_handler(const struct sigaction *action, const siginfo_t *info, ucontext_t *context)
{
    greg_t *registers = context->uc_mcontext.gregs;
    const struct signal_frame *frame =
        (const struct signal_frame *)(const void *)((const char *)context - offsetof(struct signal_frame, context));
    size_t to_info = (uintptr_t)info - (uintptr_t)frame;
    size_t size = to_info + sizeof *info;
    size_t floats = size_of_floats(context->uc_mcontext.fpregs);
    uintptr_t stack_pointer = (uintptr_t)registers[REG_RSP];
    uintptr_t floats_at = (stack_pointer - RED_ZONE - floats) & ~(FLOATS_ALIGNMENT - 1);
    uintptr_t at = ((floats_at - size) & ~(uintptr_t)15) - sizeof(void *);
    if (size > FRAME_SIZE_MAX || sti_has_shadow_stack() ||
        !sti_stack_has_room(stack_pointer - RED_ZONE, at, &context->uc_stack))
        return false;
    memcpy((void *)floats_at, context->uc_mcontext.fpregs, floats);
    memcpy((void *)at, frame, size);
    struct signal_frame *copy = (struct signal_frame *)at;
    if (floats > 0)
        copy->context.uc_mcontext.fpregs = (fpregset_t)floats_at;
    registers[REG_RSP] = (greg_t)at;
    registers[REG_RIP] = (greg_t)(uintptr_t)action->sa_sigaction;
    registers[REG_RDI] = info->si_signo;
    registers[REG_RSI] = (greg_t)(at + to_info);
    registers[REG_RDX] = (greg_t)(uintptr_t)&copy->context;
    registers[REG_RAX] = 0;
    registers[REG_EFL] &= ~DIRECTION;
    return true;
}

static void call(const struct sigaction *action, siginfo_t *info, ucontext_t *context, const sigset_t *mask)
{
    if ((action->sa_flags & SA_ONSTACK) == 0 && return_to_handler(action, info, context)) {
        memcpy(&context->uc_sigmask, mask, KERNEL_MASK_SIZE);
        return;
    }
    set_mask(mask);
    if ((action->sa_flags & SA_SIGINFO) != 0)
        action->sa_sigaction(info->si_signo, info, context);
    else
        action->sa_handler(info->si_signo);
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
    call(&action, info, context, &mask);
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

/* The signal itself is let through, for a fault of the handler's. A system call that it interrupts, as somebody has
 * sent it, goes on where it would go on. */
static bool install(const struct sigaction *of_program)
{
    struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };
    sigfillset(&action.sa_mask);
    sigdelset(&action.sa_mask, SIGSEGV);
    if ((of_program->sa_flags & SA_RESTART) != 0 || of_program->sa_handler == SIG_IGN)
        action.sa_flags |= SA_RESTART;
    return plain_sigaction(SIGSEGV, &action, NULL) == 0;
}

static void install_faults(void)
{
#if STI_OVERRIDES
    *(void **)&plain_sigaction = sti_libc_function("sigaction");
#else
    plain_sigaction = sigaction;
#endif
    /* First: then it has what to hand on to. */
    bool installed = plain_sigaction(SIGSEGV, NULL, &actions[0]) == 0 && install(&actions[0]);
    atomic_store_explicit(&faults_installed, installed, memory_order_release);
}

bool sti_fault_handler_install(void)
{
    static pthread_once_t installed = PTHREAD_ONCE_INIT;
    pthread_once(&installed, install_faults);
    return atomic_load_explicit(&faults_installed, memory_order_acquire);
}

bool sti_fault_set_action(const struct sigaction *action, struct sigaction *before)
{
    if (!atomic_load_explicit(&faults_installed, memory_order_acquire))
        return false;
    struct sigaction old = *action_of_program();
    if (action != NULL) {
        unsigned next = atomic_fetch_add_explicit(&claimed_actions, 1, memory_order_relaxed) + 1;
        actions[next % KEPT_ACTIONS] = *action;
        atomic_store_explicit(&newest_action, next, memory_order_release);
        install(action);
    }
    if (before != NULL)
        *before = old;
    return true;
}

#if STI_OVERRIDES

/* --- The functions of libc's that set the handler of a fault. A program's handler of SIGSEGV takes the place that it
 * would have if this library had none: behind ours, which hands on to it whatever is no stack's end (signals.h). Any
 * thread, signal handlers too. */

STINT_API int sigaction(int number, const struct sigaction *action, struct sigaction *before);
STINT_API sighandler_t signal(int number, sighandler_t handler);
STINT_API sighandler_t ssignal(int number, sighandler_t handler);
STINT_API sighandler_t bsd_signal(int number, sighandler_t handler);
STINT_API sighandler_t sysv_signal(int number, sighandler_t handler);
STINT_API sighandler_t __sysv_signal(int number, sighandler_t handler);

int sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
    STI_LIBC_FUNCTION(sigaction);
    if (number == SIGSEGV && sti_fault_set_action(action, before))
        return 0;
    return plain(number, action, before);
}

static sighandler_t set(int number, sighandler_t handler, int flags)
{
    struct sigaction action = { .sa_handler = handler, .sa_flags = flags };
    struct sigaction before;
    sigemptyset(&action.sa_mask);
    if (handler == SIG_ERR) {
        errno = EINVAL;
        return SIG_ERR;
    }
    return sigaction(number, &action, &before) == 0 ? before.sa_handler : SIG_ERR;
}

/* Of others than SIGSEGV siginterrupt has a say. */
sighandler_t signal(int number, sighandler_t handler)
{
    STI_LIBC_FUNCTION(signal);
    return number == SIGSEGV ? set(number, handler, SA_RESTART) : plain(number, handler);
}

sighandler_t ssignal(int number, sighandler_t handler)
{
    return signal(number, handler);
}

sighandler_t bsd_signal(int number, sighandler_t handler)
{
    return signal(number, handler);
}

sighandler_t __sysv_signal(int number, sighandler_t handler)
{
    STI_LIBC_FUNCTION(__sysv_signal);
    return number == SIGSEGV ? set(number, handler, (int)(SA_RESETHAND | SA_NODEFER)) : plain(number, handler);
}

sighandler_t sysv_signal(int number, sighandler_t handler)
{
    return __sysv_signal(number, handler);
}

#endif
