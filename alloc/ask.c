/* SPDX-License-Identifier: MIT
 *
 * Asking a thread what it is doing; see ask.h. The handler takes no lock and allocates nothing; what it looks at is the
 * thread's own, and if that is just being changed by the code it interrupted, the answer is a little wrong. */
#include "ask.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "caller.h"
#include "callstack.h"
#include "deferral.h"
#include "scope_state.h"
#include "thread.h"

static _Thread_local struct sti_ask *mine;
static int install_result;

static int ask_signal(void)
{
    return SIGRTMAX - 3;
}

static stint_deferral look(uintptr_t instruction, uintptr_t stack_pointer)
{
    const struct sti_thread *thread = sti_thread_metered;
    if (thread == NULL)
        return STINT_DEFERRAL_NONE;
    stint_deferral deferral = sti_deferral_of(thread->scope);
    if (deferral == STINT_DEFERRAL_NONE &&
        (sti_caller_is_protected(instruction) || !sti_caller_stack_is_safe(thread->scope->frame, stack_pointer, NULL)))
        deferral = STINT_DEFERRAL_FRAME;
    return deferral;
}

static void answer(struct sti_ask *ask, unsigned question, const greg_t *registers)
{
    void *frames[STI_ASK_DEPTH];
    size_t depth = sti_callstack(frames, STI_ASK_DEPTH, (const void *)registers[REG_RIP]);
    stint_deferral deferral = look((uintptr_t)registers[REG_RIP], (uintptr_t)registers[REG_RSP]);
    /* release: after the 0. */
    atomic_store_explicit(&ask->answered, 0, memory_order_relaxed);
    for (size_t i = 0; i < depth; i++)
        atomic_store_explicit(&ask->frames[i], frames[i], memory_order_release);
    atomic_store_explicit(&ask->depth, depth, memory_order_release);
    atomic_store_explicit(&ask->deferral, (int)deferral, memory_order_release);
    atomic_store_explicit(&ask->answered, question, memory_order_release);
}

static void on_signal(int number, siginfo_t *info, void *context)
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
static void install(void)
{
    struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART };
    sigfillset(&action.sa_mask);
    install_result = sigaction(ask_signal(), &action, NULL) == 0 ? 0 : errno;
}

int sti_ask_begin(struct sti_ask *ask)
{
    static pthread_once_t installed = PTHREAD_ONCE_INIT;
    pthread_once(&installed, install);
    if (install_result != 0)
        return install_result;
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
