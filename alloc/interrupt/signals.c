/* SPDX-License-Identifier: MIT
 *
 * The signal that this library sends to a thread, to preempt its task, and the signal mask of child processes; see
 * signals.h. */
#include "signals.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "alloc/platform/caller.h"
#include "alloc/platform/clock.h"
#include "alloc/platform/machine.h"
#include "alloc/platform/process.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"
#include "interrupt.h"
#include "safe.h"
#include "watch.h"

/* --- Preemption by signal.
 *
 * The signal is SIGRTMAX - 2, sent with tgkill and only to a thread that is in a preemptible scope. Its handler may
 * find the thread anywhere. So first of all it asks where the interrupted instruction lies: where that is no code that
 * may be left, but libc's, another library's, or this one's, it does nothing, because any lock or list of theirs may be
 * half changed; the watch asks again shortly after. Of libc's functions those that only look at memory or copy it are
 * as the code that has called them.
 * Elsewhere none of their code is running at the top of the stack, so this library's state is whole, and what remains
 * is what every sample point asks too: masks, holds, and the walk of the stack, which starts at the interrupted frame.
 * The signal is blocked while its handler runs: to a thread that could not take it for a while many come at once, and
 * none may find another's handler on the stack. A jump out of the handler leaves it blocked until the scope ends.
 *
 * One signal is on its way to a thread at a time. Real-time signals queue, and the kernel puts the handlers of all that
 * wait on the stack before the first of them runs: a thread that got no processor for a while would overflow its stack.
 *
 * The first is sent by whoever has given the reason (sti_watch_wake), so that a loop ends without a third thread; all
 * others, and the first where the reason is time or the watch's lock was not free, by the watch. Both have the watch's
 * lock and find the scope on its list: so the thread is the scope's, and takes the signal before the scope has ended.
 *
 *   asked:  false -- sender, who then sends --> true -- handler, first of all; sender, where nothing could be sent -->
 *           false
 *
 *   sender:   store reason (seq_cst) ... exchange asked for true (seq_cst); false before: send
 *   handler:  store asked = false (seq_cst) ... load reasons (seq_cst)
 *
 * That is a handshake (thread.h): a sender who sends nothing, since another signal has not been taken, can rely on its
 * handler to see the reason. A handler that finds one, or cannot look, and does not leave the code, has it asked again:
 *
 *   handler:  ask_at = later ... sti_watch_hasten(later)
 *   watch:    not before ask_at: send, and look again later
 *
 * From then on the watch sends as long as the reason lasts. Nobody else would: who has given it is gone. So each way
 * out of the handler but the last two, a jump and "nothing has tripped", goes by there. tests/models/preempt.pml.
 *
 * Without SA_RESTART a blocking system call returns EINTR, and the code that made it should come to a sample point. */

static int preempt_signal(void)
{
    return SIGRTMAX - 2;
}

/* False: the thread is to be asked again. Also between an inner scope's end and the return to the outer one. */
static bool takes_it(struct sti_thread *thread, const void *context)
{
    if (sti_thread_metered == NULL || !thread->scope->preemptible)
        return false;
    const struct sti_registers stopped = sti_registers_of(context);
    return sti_verdict_is_own_code(thread->scope, &stopped) && !sti_interrupt_preempt(thread, &stopped);
}

static void on_preemption(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    struct sti_thread *thread = sti_thread_own();
    if (thread == NULL)
        return;
    int saved_errno = errno;
    atomic_store_explicit(&thread->asked, false, memory_order_seq_cst);
    if (!takes_it(thread, context)) {
        uint64_t later = sti_clock_now() + STI_ASK_AGAIN_NS;
        atomic_store_explicit(&thread->ask_at, later, memory_order_relaxed);
        sti_watch_hasten(later);
    }
    errno = saved_errno;
}

static int preemption_installed;

static void install_preemption(void)
{
    struct sigaction action = { .sa_sigaction = on_preemption, .sa_flags = SA_SIGINFO | SA_ONSTACK };
    sigemptyset(&action.sa_mask);
    sti_verdict_prepare();
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
    atomic_store_explicit(&thread->ask_at, 0, memory_order_relaxed);
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

bool sti_preempt_send(struct sti_thread *thread)
{
    if (atomic_exchange_explicit(&thread->asked, true, memory_order_seq_cst))
        return true;
    int saved_errno = errno;
    bool is_sent = syscall(SYS_tgkill, getpid(), thread->id, preempt_signal()) == 0;
    if (!is_sent)
        atomic_store_explicit(&thread->asked, false, memory_order_seq_cst);
    errno = saved_errno;
    return is_sent;
}

uint64_t sti_preempt_next(const struct sti_thread *thread)
{
    return atomic_load_explicit(&thread->ask_at, memory_order_relaxed);
}

/* --- The signal mask of child processes. Calling thread only. --- */

static _Thread_local const struct sti_child_masks *of_thread;

void sti_child_set_masks(const struct sti_child_masks *masks)
{
    of_thread = masks;
}

/* Apart from the signal that a preemptible task lets through. */
static bool are_equal(sigset_t a, sigset_t b)
{
    sti_preempt_leave_as_before(&a, true);
    sti_preempt_leave_as_before(&b, true);
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

STI_FORK_HANDLER void sti_signals_in_child(void)
{
    sigset_t mask;
    if (of_thread == NULL || pthread_sigmask(SIG_SETMASK, NULL, &mask) != 0)
        return;
    pthread_sigmask(SIG_SETMASK, sti_child_mask(&mask), NULL);
}
