/* SPDX-License-Identifier: MIT
 *
 * Overrides of what starts threads and waits for their end. A thread of the program meets mimalloc before its function
 * is called and not at its first block: mimalloc takes locks there that it does not look after at a fork(2), so it does
 * so while none happens (process.h). And where a task's option says so, a thread that the task starts is the task's
 * (joined_thread.h). Any thread.
 *
 * Threads that libc starts for itself (timers, aio) meet mimalloc at their first block all the same, and are
 * nobody's. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/api.h>
#include <threads.h>

#include "alloc/base/caller.h"
#include "alloc/base/module.h"
#include "alloc/base/process.h"
#include "alloc/base/thread.h"
#include "joined_thread.h"
#include "plain_thread.h"

STINT_API int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *arg);
STINT_API int thrd_create(thrd_t *thread, thrd_start_t function, void *arg);
STINT_API int pthread_join(pthread_t thread, void **value);
STINT_API int pthread_tryjoin_np(pthread_t thread, void **value);
STINT_API int pthread_timedjoin_np(pthread_t thread, void **value, const struct timespec *until);
STINT_API int pthread_clockjoin_np(pthread_t thread, void **value, clockid_t clock, const struct timespec *until);
STINT_API int pthread_detach(pthread_t thread);
STINT_API int thrd_join(thrd_t thread, int *result);
STINT_API int thrd_detach(thrd_t thread);

/* --- Starting --- */

static void *begin(void *argument)
{
    const struct sti_start start = *(struct sti_start *)argument;
    sti_quiet_enter();
    sti_thread_begin();
    sti_quiet_leave();
    sti_process_free(argument);
    return sti_start_call(&start);
}

static int create_free(pthread_t *thread, const pthread_attr_t *attributes, const struct sti_start *wanted)
{
    struct sti_start *start = sti_process_malloc(sizeof *start);
    if (start == NULL)
        return EAGAIN;
    *start = *wanted;
    int error = sti_plain_create(thread, attributes, begin, start);
    if (error != 0)
        sti_process_free(start);
    return error;
}

static int create(pthread_t *thread, const pthread_attr_t *attributes, const struct sti_start *wanted,
                  const void *caller)
{
    switch (sti_joined_mode(caller)) {
    case STINT_THREADS_CHARGED:
        return sti_joined_start(thread, attributes, wanted, caller);
    case STINT_THREADS_REFUSED:
        return EAGAIN;
    case STINT_THREADS_FREE:
        break;
    }
    return create_free(thread, attributes, wanted);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *arg)
{
    const struct sti_start wanted = { .function = function, .arg = arg };
    return create(thread, attributes, &wanted, STI_CALLER());
}

/* glibc's thrd_t is a pthread_t, and its thrd_join takes the result as it is made here. */
int thrd_create(thrd_t *thread, thrd_start_t function, void *arg)
{
    const struct sti_start wanted = { .c11_function = function, .arg = arg };
    int error = create(thread, NULL, &wanted, STI_CALLER());
    return error == 0 ? thrd_success : error == ENOMEM ? thrd_nomem : thrd_error;
}

/* --- Joining and detaching --- */

/* However it is left: pthread_join is a place where a thread may be cancelled. */
struct join {
    struct sti_joined *joined;
    bool is_joined;
};

static void end_join(struct join *join)
{
    if (join->joined != NULL)
        sti_joined_end_join(join->joined, join->is_joined);
}

/* A function that has joined the thread when it returns 0. */
#define JOINING(name, parameters, arguments)                                                                           \
    int name parameters                                                                                                \
    {                                                                                                                  \
        STI_LIBC_FUNCTION(name)                                                                                        \
        int error;                                                                                                     \
        __attribute__((cleanup(end_join))) struct join join = { .joined = sti_joined_begin_join(thread, &error) };     \
        if (error != 0)                                                                                                \
            return error;                                                                                              \
        error = plain arguments;                                                                                       \
        join.is_joined = error == 0;                                                                                   \
        return error;                                                                                                  \
    }

JOINING(pthread_join, (pthread_t thread, void **value), (thread, value))
JOINING(pthread_tryjoin_np, (pthread_t thread, void **value), (thread, value))
JOINING(pthread_timedjoin_np, (pthread_t thread, void **value, const struct timespec *until), (thread, value, until))
JOINING(pthread_clockjoin_np, (pthread_t thread, void **value, clockid_t clock, const struct timespec *until),
        (thread, value, clock, until))

int thrd_join(thrd_t thread, int *result)
{
    void *value = NULL;
    if (pthread_join(thread, &value) != 0)
        return thrd_error;
    if (result != NULL)
        *result = (int)(intptr_t)value;
    return thrd_success;
}

int pthread_detach(pthread_t thread)
{
    STI_LIBC_FUNCTION(pthread_detach)
    int error;
    return sti_joined_detach(thread, &error) ? error : plain(thread);
}

int thrd_detach(thrd_t thread)
{
    return pthread_detach(thread) == 0 ? thrd_success : thrd_error;
}
