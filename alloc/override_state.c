/* SPDX-License-Identifier: MIT
 *
 * Overrides of the calls that change what a thread has of libc and of the kernel, so that a scope can undo them
 * (thread_state.h). Any thread. */
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stint/api.h>
#include <unistd.h>

#include "module_symbol.h"
#include "thread.h"
#include "thread_state.h"

STINT_API locale_t uselocale(locale_t locale);
STINT_API int pthread_sigmask(int how, const sigset_t *set, sigset_t *before);
STINT_API int sigprocmask(int how, const sigset_t *set, sigset_t *before);
STINT_API int pthread_setcancelstate(int state, int *before);
STINT_API int pthread_setcanceltype(int type, int *before);
STINT_API int sigaltstack(const stack_t *stack, stack_t *before);
STINT_API int sched_setaffinity(pid_t thread, size_t size, const cpu_set_t *processors);
STINT_API int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *processors);
STINT_API int sched_setscheduler(pid_t thread, int policy, const struct sched_param *priority);
STINT_API int sched_setparam(pid_t thread, const struct sched_param *priority);
STINT_API int pthread_setschedparam(pthread_t thread, int policy, const struct sched_param *priority);

typedef locale_t locale_fn(locale_t);
typedef int mask_fn(int, const sigset_t *, sigset_t *);
typedef int cancel_fn(int, int *);
typedef int stack_fn(const stack_t *, stack_t *);
typedef int affinity_fn(pid_t, size_t, const cpu_set_t *);
typedef int thread_affinity_fn(pthread_t, size_t, const cpu_set_t *);
typedef int scheduler_fn(pid_t, int, const struct sched_param *);
typedef int param_fn(pid_t, const struct sched_param *);
typedef int thread_param_fn(pthread_t, int, const struct sched_param *);

/* Two threads at once find the same. */
#define PLAIN(type, name)                                                                                              \
    static type *_Atomic found;                                                                                        \
    type *plain = atomic_load_explicit(&found, memory_order_relaxed);                                                  \
    if (__builtin_expect(plain == NULL, 0)) {                                                                          \
        *(void **)&plain = sti_libc_function(name);                                                                    \
        atomic_store_explicit(&found, plain, memory_order_relaxed);                                                    \
    }

locale_t uselocale(locale_t locale)
{
    PLAIN(locale_fn, "uselocale")
    locale_t before = plain(locale);
    if (__builtin_expect(sti_thread_metered != NULL, 0) && locale != (locale_t)0 && before != (locale_t)0)
        sti_thread_state_locale(sti_thread_metered->scope, before);
    return before;
}

int pthread_sigmask(int how, const sigset_t *set, sigset_t *before)
{
    PLAIN(mask_fn, "pthread_sigmask")
    if (__builtin_expect(sti_thread_metered == NULL, 1) || set == NULL)
        return plain(how, set, before);
    sigset_t mine;
    int error = plain(how, set, &mine);
    if (error != 0)
        return error;
    sti_thread_state_mask(sti_thread_metered->scope, &mine);
    if (before != NULL)
        *before = mine;
    return 0;
}

int sigprocmask(int how, const sigset_t *set, sigset_t *before)
{
    PLAIN(mask_fn, "sigprocmask")
    if (__builtin_expect(sti_thread_metered == NULL, 1) || set == NULL)
        return plain(how, set, before);
    sigset_t mine;
    int result = plain(how, set, &mine);
    if (result != 0)
        return result;
    sti_thread_state_mask(sti_thread_metered->scope, &mine);
    if (before != NULL)
        *before = mine;
    return 0;
}

int pthread_setcancelstate(int state, int *before)
{
    PLAIN(cancel_fn, "pthread_setcancelstate")
    int mine;
    int error = plain(state, &mine);
    if (error == 0 && sti_thread_metered != NULL)
        sti_thread_state_cancel(sti_thread_metered->scope, mine);
    if (error == 0 && before != NULL)
        *before = mine;
    return error;
}

int pthread_setcanceltype(int type, int *before)
{
    PLAIN(cancel_fn, "pthread_setcanceltype")
    int mine;
    int error = plain(type, &mine);
    if (error == 0 && sti_thread_metered != NULL)
        sti_thread_state_cancel_type(sti_thread_metered->scope, mine);
    if (error == 0 && before != NULL)
        *before = mine;
    return error;
}

/* A stack for signals may be the task's memory. */
int sigaltstack(const stack_t *stack, stack_t *before)
{
    PLAIN(stack_fn, "sigaltstack")
    stack_t mine;
    int result = plain(stack, &mine);
    if (result != 0)
        return result;
    if (stack != NULL && sti_thread_metered != NULL)
        sti_thread_state_stack(sti_thread_metered->scope, &mine);
    if (before != NULL)
        *before = mine;
    return 0;
}

/* --- How the thread is scheduled ---------------------------------------------------------------------------------- */

static bool is_own(pid_t thread)
{
    return thread == 0 || thread == gettid();
}

static void note_processors(bool own)
{
    cpu_set_t before;
    if (own && sti_thread_metered != NULL && sched_getaffinity(0, sizeof before, &before) == 0)
        sti_thread_state_processors(sti_thread_metered->scope, &before);
}

static void note_scheduling(bool own)
{
    struct sched_param before;
    if (!own || sti_thread_metered == NULL)
        return;
    int policy = sched_getscheduler(0);
    if (policy >= 0 && sched_getparam(0, &before) == 0)
        sti_thread_state_scheduling(sti_thread_metered->scope, policy, &before);
}

int sched_setaffinity(pid_t thread, size_t size, const cpu_set_t *processors)
{
    PLAIN(affinity_fn, "sched_setaffinity")
    note_processors(is_own(thread));
    return plain(thread, size, processors);
}

int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *processors)
{
    PLAIN(thread_affinity_fn, "pthread_setaffinity_np")
    note_processors(pthread_equal(thread, pthread_self()));
    return plain(thread, size, processors);
}

int sched_setscheduler(pid_t thread, int policy, const struct sched_param *priority)
{
    PLAIN(scheduler_fn, "sched_setscheduler")
    note_scheduling(is_own(thread));
    return plain(thread, policy, priority);
}

int sched_setparam(pid_t thread, const struct sched_param *priority)
{
    PLAIN(param_fn, "sched_setparam")
    note_scheduling(is_own(thread));
    return plain(thread, priority);
}

int pthread_setschedparam(pthread_t thread, int policy, const struct sched_param *priority)
{
    PLAIN(thread_param_fn, "pthread_setschedparam")
    note_scheduling(pthread_equal(thread, pthread_self()));
    return plain(thread, policy, priority);
}
