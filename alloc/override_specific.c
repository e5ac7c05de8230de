/* SPDX-License-Identifier: MIT
 *
 * Overrides of the calls that set and delete thread-specific values, so that a scope can undo them. Any thread. */
#include <errno.h>
#include <pthread.h>
#include <stint/api.h>
#include <threads.h>

#include "module_symbol.h"
#include "specific.h"
#include "thread.h"

STINT_API int pthread_setspecific(pthread_key_t key, const void *value);
STINT_API int tss_set(tss_t key, void *value);
STINT_API int pthread_key_delete(pthread_key_t key);
STINT_API void tss_delete(tss_t key);

int pthread_setspecific(pthread_key_t key, const void *value)
{
    struct sti_thread *thread = sti_thread_metered;
    if (__builtin_expect(thread != NULL, 0) && !sti_specific_record(thread->scope, key))
        return ENOMEM;
    return sti_specific_set_plain(key, value);
}

/* glibc's tss_t is a pthread_key_t, and its tss_set is its pthread_setspecific. */
int tss_set(tss_t key, void *value)
{
    return pthread_setspecific(key, value) == 0 ? thrd_success : thrd_error;
}

int pthread_key_delete(pthread_key_t key)
{
    struct sti_thread *thread = sti_thread_metered;
    if (__builtin_expect(thread != NULL, 0))
        sti_specific_forget(thread->scope, key);
    int (*plain)(pthread_key_t);
    *(void **)&plain = sti_libc_function("pthread_key_delete");
    return plain(key);
}

void tss_delete(tss_t key)
{
    pthread_key_delete(key);
}
