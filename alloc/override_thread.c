/* SPDX-License-Identifier: MIT
 *
 * Overrides around the start and the end of threads: mimalloc takes locks there that it does not look after at a fork(2), so
 * none happens meanwhile (quiet.h). A thread of the program meets mimalloc before its function is called and not at its first
 * block; and what mimalloc does at the thread's end, in the destructor of a key, is wrapped. Any thread.
 *
 * Threads that libc starts for itself (timers, aio) meet mimalloc at their first block all the same. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stint/api.h>
#include <threads.h>

#include "backend.h"
#include "caller.h"
#include "keep_module.h"
#include "module_symbol.h"
#include "process.h"
#include "quiet.h"

STINT_API int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *arg);
STINT_API int thrd_create(thrd_t *thread, thrd_start_t function, void *arg);
STINT_API int pthread_key_create(pthread_key_t *key, void (*destructor)(void *value));

typedef void *start_fn(void *);
typedef int create_fn(pthread_t *, const pthread_attr_t *, start_fn *, void *);
typedef void destructor_fn(void *);

struct start {
    start_fn *function; /* one of the two */
    thrd_start_t c11_function;
    void *arg;
};

static void *begin(void *argument)
{
    const struct start start = *(struct start *)argument;
    sti_quiet_enter();
    sti_backend_thread_init();
    sti_quiet_leave();
    sti_process_free(argument);
    if (start.function != NULL)
        return start.function(start.arg);
    return (void *)(intptr_t)start.c11_function(start.arg);
}

static int create(pthread_t *thread, const pthread_attr_t *attributes, struct start wanted)
{
    static create_fn *_Atomic found; /* two threads at once find the same */
    create_fn *plain = atomic_load_explicit(&found, memory_order_relaxed);
    if (plain == NULL) {
        *(void **)&plain = sti_libc_function("pthread_create");
        atomic_store_explicit(&found, plain, memory_order_relaxed);
    }
    struct start *start = sti_process_malloc(sizeof *start);
    if (start == NULL)
        return EAGAIN;
    *start = wanted;
    int error = plain(thread, attributes, begin, start);
    if (error != 0)
        sti_process_free(start);
    return error;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *arg)
{
    return create(thread, attributes, (struct start){ .function = function, .arg = arg });
}

/* glibc's thrd_t is a pthread_t, and its thrd_join takes the result as it is made here. */
int thrd_create(thrd_t *thread, thrd_start_t function, void *arg)
{
    int error = create(thread, NULL, (struct start){ .c11_function = function, .arg = arg });
    return error == 0 ? thrd_success : error == ENOMEM ? thrd_nomem : thrd_error;
}

static destructor_fn *_Atomic backend_destructor;

static void end_quietly(void *value)
{
    sti_quiet_enter();
    atomic_load_explicit(&backend_destructor, memory_order_relaxed)(value);
    sti_quiet_leave();
}

static bool is_backend(destructor_fn *destructor)
{
    const struct link_map *module = sti_module_of((const void *)(uintptr_t)destructor);
    return destructor != NULL && module == sti_module_of(sti_backend_address());
}

/* mimalloc has one key. This library's own is made by libc's function (thread.c): it may be in the same module. A runtime of
 * OpenMP makes one before its first team, so that one that has come by dlopen is known by then. */
int pthread_key_create(pthread_key_t *key, void (*destructor)(void *value))
{
    sti_keep_openmp(STI_CALLER());
    int (*plain)(pthread_key_t *, destructor_fn *);
    *(void **)&plain = sti_libc_function("pthread_key_create");
    destructor_fn *none = NULL;
    if (is_backend(destructor) &&
        atomic_compare_exchange_strong_explicit(&backend_destructor, &none, destructor, memory_order_relaxed,
                                                memory_order_relaxed))
        destructor = end_quietly;
    return plain(key, destructor);
}
