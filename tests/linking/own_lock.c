/* SPDX-License-Identifier: MIT
 *
 * A library that puts a pthread_mutex_lock of its own in front, as tracers of locks do. */
#include <dlfcn.h>
#include <pthread.h>

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    int (*next)(pthread_mutex_t *);
    *(void **)&next = dlsym(RTLD_NEXT, "pthread_mutex_lock");
    return next(mutex);
}
