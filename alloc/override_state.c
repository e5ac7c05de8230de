/* SPDX-License-Identifier: MIT
 *
 * Overrides of the calls that change what a thread has of libc and of the kernel, so that a scope can undo them
 * (thread_state.h). Any thread. */
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stint/api.h>

#include "module_symbol.h"
#include "thread.h"
#include "thread_state.h"

STINT_API locale_t uselocale(locale_t locale);
STINT_API int pthread_sigmask(int how, const sigset_t *set, sigset_t *before);
STINT_API int sigprocmask(int how, const sigset_t *set, sigset_t *before);
STINT_API int pthread_setcancelstate(int state, int *before);
STINT_API int pthread_setcanceltype(int type, int *before);

typedef locale_t locale_fn(locale_t);
typedef int mask_fn(int, const sigset_t *, sigset_t *);
typedef int cancel_fn(int, int *);

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
