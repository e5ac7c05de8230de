/* SPDX-License-Identifier: MIT
 *
 * Override of pthread_key_create, to hear from mimalloc that a thread ends, before it abandons the thread's memory.
 * mimalloc learns it from a thread-specific value's destructor; the key that it makes gets ours in front. In every build,
 * as it replaces no allocation. Any thread; the first call comes from mimalloc's own constructor. */
#include <dlfcn.h>
#include <pthread.h>
#include <stint/api.h>

#include "caller.h"
#include "thread.h"

STINT_API int pthread_key_create(pthread_key_t *key, void (*destructor)(void *));

static void (*backend_destructor)(void *);

bool sti_thread_ends_are_heard(void)
{
    return backend_destructor != NULL;
}

static void end_thread(void *value)
{
    sti_thread_end();
    backend_destructor(value);
}

int pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
    int (*plain)(pthread_key_t *, void (*)(void *));
    *(void **)&plain = dlsym(RTLD_NEXT, "pthread_key_create");
    if (destructor != NULL && sti_caller_is_backend(STI_CALLER())) {
        backend_destructor = destructor;
        destructor = end_thread;
    }
    return plain(key, destructor);
}
