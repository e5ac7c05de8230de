/* SPDX-License-Identifier: MIT
 *
 * The signals that this library sends to a thread, for a preemption and for a question, and the signal mask of child
 * processes; see signals.h. */
#include "signals.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "alloc/base/caller.h"
#include "alloc/base/module.h"
#include "alloc/base/process.h"
#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"
#include "hold.h"
#include "interrupt.h"
#include "safe.h"

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
 * Without SA_RESTART a blocking system call returns EINTR, and the code that made it should come to a sample point. */

static int preempt_signal(void)
{
    return SIGRTMAX - 2;
}

struct sti_registers sti_signal_stopped_at(const greg_t *registers)
{
    return (struct sti_registers){ .ip = (uintptr_t)registers[REG_RIP],
                                   .sp = (uintptr_t)registers[REG_RSP],
                                   .bp = (uintptr_t)registers[REG_RBP] };
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
    const struct sti_registers stopped = sti_signal_stopped_at(registers);
    if (!sti_verdict_is_own_code(thread->scope, &stopped))
        return;
    int saved_errno = errno;
    sti_interrupt_preempt(thread, &stopped);
    errno = saved_errno;
}

static int preemption_installed;

static void install_preemption(void)
{
    struct sigaction action = { .sa_sigaction = on_preemption, .sa_flags = SA_SIGINFO };
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

static stint_deferral look(const struct sti_registers *at)
{
    const struct sti_thread *thread = sti_thread_metered;
    return thread != NULL ? sti_verdict(thread->scope, at) : STINT_DEFERRAL_NONE;
}

static void write_frames(struct sti_ask *ask, const struct sti_registers *at)
{
    void *frames[STI_ASK_DEPTH];
    uintptr_t tops[STI_ASK_DEPTH];
    bool is_own = ask->stack <= at->sp && at->sp < ask->stack_end;
    size_t depth = sti_callstack_of(*at, is_own ? ask->stack_end : 0, frames, tops, STI_ASK_DEPTH);
    for (size_t i = 0; i < depth; i++) {
        atomic_store_explicit(&ask->frames[i], frames[i], memory_order_release);
        atomic_store_explicit(&ask->tops[i], tops[i], memory_order_release);
    }
    atomic_store_explicit(&ask->depth, depth, memory_order_release);
    atomic_store_explicit(&ask->is_elsewhere, !is_own, memory_order_release);
}

static void write_tasks(struct sti_ask *ask)
{
    struct sti_ask_task tasks[STI_ASK_TASKS];
    size_t count = ask->list(tasks, STI_ASK_TASKS);
    for (size_t i = 0; i < count; i++) {
        atomic_store_explicit(&ask->tasks[i], tasks[i].task, memory_order_release);
        atomic_store_explicit(&ask->task_tops[i], tasks[i].top, memory_order_release);
    }
    atomic_store_explicit(&ask->task_count, count, memory_order_release);
}

static void answer(struct sti_ask *ask, unsigned question, const greg_t *registers)
{
    const struct sti_registers at = sti_signal_stopped_at(registers);
    bool wanted = atomic_load_explicit(&ask->deferral_wanted, memory_order_relaxed) != 0;
    /* release, in all that follows: after the 0. */
    atomic_store_explicit(&ask->answered, 0, memory_order_relaxed);
    write_frames(ask, &at);
    write_tasks(ask);
    atomic_store_explicit(&ask->deferral, (int)(wanted ? look(&at) : STINT_DEFERRAL_NONE), memory_order_release);
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
    mine = ask;
    ask->id = (int)syscall(SYS_gettid);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, ask_signal());
    return pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

void sti_ask_end(void)
{
    mine = NULL;
}

void sti_ask_want_deferral(struct sti_ask *ask, bool wanted)
{
    atomic_fetch_add_explicit(&ask->deferral_wanted, wanted ? 1U : -1U, memory_order_relaxed);
}

/* They count on for ever: after two thousand million questions they begin again. */
static bool is_later(unsigned question, unsigned than)
{
    return (int)(question - than) > 0;
}

unsigned sti_ask_send(struct sti_ask *ask)
{
    static atomic_uint numbers;
    unsigned question = atomic_fetch_add_explicit(&numbers, 2, memory_order_relaxed) | 1; /* never 0 */
    unsigned before = atomic_load_explicit(&ask->question, memory_order_relaxed);
    while ((before == 0 || is_later(question, before)) &&
           !atomic_compare_exchange_weak_explicit(&ask->question, &before, question, memory_order_release,
                                                  memory_order_relaxed))
        ;
    bool sent = ask->id != 0 && syscall(SYS_tgkill, getpid(), ask->id, ask_signal()) == 0;
    return sent ? question : 0;
}

static void read_answer(struct sti_ask *ask, struct sti_answer *answer)
{
    /* acquire: before the second look at the number. */
    size_t depth = atomic_load_explicit(&ask->depth, memory_order_acquire);
    size_t count = atomic_load_explicit(&ask->task_count, memory_order_acquire);
    answer->depth = depth < STI_ASK_DEPTH ? depth : STI_ASK_DEPTH;
    answer->task_count = count < STI_ASK_TASKS ? count : STI_ASK_TASKS;
    for (size_t i = 0; i < answer->depth; i++) {
        answer->frames[i] = atomic_load_explicit(&ask->frames[i], memory_order_acquire);
        answer->tops[i] = atomic_load_explicit(&ask->tops[i], memory_order_acquire);
    }
    for (size_t i = 0; i < answer->task_count; i++) {
        answer->tasks[i].task = atomic_load_explicit(&ask->tasks[i], memory_order_acquire);
        answer->tasks[i].top = atomic_load_explicit(&ask->task_tops[i], memory_order_acquire);
    }
    answer->is_elsewhere = atomic_load_explicit(&ask->is_elsewhere, memory_order_acquire);
    answer->deferral = (stint_deferral)atomic_load_explicit(&ask->deferral, memory_order_acquire);
}

bool sti_ask_read(struct sti_ask *ask, unsigned question, struct sti_answer *answer)
{
    unsigned answered = atomic_load_explicit(&ask->answered, memory_order_acquire);
    if (question == 0 || answered == 0 || is_later(question, answered))
        return false;
    read_answer(ask, answer);
    return atomic_load_explicit(&ask->answered, memory_order_relaxed) == answered;
}

/* On another stack all of them are the innermost task's, whose thread it is. */
size_t sti_answer_frames(const struct sti_answer *answer, const void *task, size_t *first)
{
    size_t at = 0;
    while (at < answer->task_count && answer->tasks[at].task != task)
        at++;
    *first = 0;
    if (at == answer->task_count || (answer->is_elsewhere && at > 0))
        return 0;
    if (answer->is_elsewhere)
        return answer->depth;
    while (at > 0 && *first < answer->depth && answer->tops[*first] <= answer->tasks[at - 1].top)
        (*first)++;
    size_t end = *first;
    while (end < answer->depth && answer->tops[end] <= answer->tasks[at].top)
        end++;
    return end - *first;
}

/* --- The signal mask of child processes. Calling thread only. --- */

static _Thread_local const struct sti_child_masks *of_thread;

void sti_child_set_masks(const struct sti_child_masks *masks)
{
    of_thread = masks;
}

/* Apart from what nobody can block, and the signals that a preemptible task and a thread that answers let through. */
static void leave_out(sigset_t *set)
{
    sigaddset(set, SIGKILL);
    sigaddset(set, SIGSTOP);
    sti_preempt_leave_as_before(set, true);
    sigaddset(set, ask_signal());
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

STI_FORK_HANDLER void sti_signals_in_child(void)
{
    sigset_t mask;
    if (of_thread == NULL || pthread_sigmask(SIG_SETMASK, NULL, &mask) != 0)
        return;
    pthread_sigmask(SIG_SETMASK, sti_child_mask(&mask), NULL);
}
