/* SPDX-License-Identifier: MIT
 *
 * Preemption by signal; see preempt.h.
 *
 * The signal is SIGRTMAX - 2, sent with tgkill and only to a thread that is in a preemptible scope. Its handler may find
 * the thread anywhere. So first of all it asks where the interrupted instruction lies: in libc, the loader, the C++
 * runtime, mimalloc, Concurrency Kit (which runs in the midst of this library's functions), the vDSO or this library it
 * does nothing, because any lock or list of theirs may be half changed; the watch asks again shortly after. Elsewhere none
 * of their code is running at the top of the stack, so this library's state is whole, and what remains is what every
 * sample point asks too: masks, holds, and the walk of the stack, which starts at the interrupted frame. The signal is
 * blocked while its handler runs: to a thread that could not take it for a while many come at once, and none may find
 * another's handler on the stack. A jump out of the handler leaves it blocked until the scope ends.
 *
 * One signal is on its way to a thread at a time. Real-time signals queue, and the kernel puts the handlers of all that
 * wait on the stack before the first of them runs: a thread that got no processor for a while would overflow its stack.
 *
 * Without SA_RESTART a blocking system call returns EINTR, and the code that made it should come to a sample point. */
#include "preempt.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "caller.h"
#include "interrupt.h"
#include "scope_state.h"
#include "thread.h"

static int preempt_signal(void)
{
    return SIGRTMAX - 2;
}

static void on_signal(int number, siginfo_t *info, void *context)
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
    sti_interrupt_preempt(thread, (uintptr_t)registers[REG_RSP]);
    errno = saved_errno;
}

static int install_result;

static void install(void)
{
    struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
    sigemptyset(&action.sa_mask);
    install_result = sigaction(preempt_signal(), &action, NULL) == 0 ? 0 : errno;
}

static void the_signal(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, preempt_signal());
}

int sti_preempt_open(struct sti_thread *thread, bool *was_blocked)
{
    static pthread_once_t installed = PTHREAD_ONCE_INIT;
    pthread_once(&installed, install);
    if (install_result != 0)
        return install_result;
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
