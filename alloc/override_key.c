/* SPDX-License-Identifier: MIT
 *
 * Override of pthread_key_create, to hear from mimalloc that a thread ends, before it abandons the thread's memory.
 * mimalloc learns it from a thread-specific value's destructor; the key that it makes gets ours in front. In every build,
 * as it replaces no allocation. Any thread; the first call comes from mimalloc's own constructor. */
#include <pthread.h>
#include <stint/api.h>

#include "caller.h"
#include "thread.h"

STINT_API int pthread_key_create(pthread_key_t *key, void (*destructor)(void *));

/* libc's own, under its other name. */
extern int __pthread_key_create(pthread_key_t *key, void (*destructor)(void *));

static void (*backend_destructor)(void *);
static pthread_key_t backend_key;

/* What mimalloc leaves behind the key of a thread whose heap is gone; the destructor is then called for that, too. */
static void *_Atomic no_heap;

bool sti_thread_ends_are_heard(void)
{
    return backend_destructor != NULL;
}

static void end_thread(void *heap)
{
    if (heap != atomic_load_explicit(&no_heap, memory_order_relaxed)) {
        sti_thread_end();
        backend_destructor(heap);
        atomic_store_explicit(&no_heap, pthread_getspecific(backend_key), memory_order_relaxed);
    }
}

/* A sanitizer's runtime calls it before it is ready itself. */
STI_CALLER_UNINSTRUMENTED int pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
    if (destructor == NULL || !sti_caller_is_backend(STI_CALLER()))
        return __pthread_key_create(key, destructor);
    backend_destructor = destructor;
    int error = __pthread_key_create(key, end_thread);
    backend_key = *key;
    return error;
}
