/* SPDX-License-Identifier: MIT
 *
 * Overrides of what takes and releases locks, so that no task is interrupted while it holds one. Any thread.
 *
 * pthread_cond_wait and its like need none: when they return, the mutex is held again, and no sample point lies between.
 * C11's functions do not go through pthread's, nor does a stream's lock. Outside a scope each is a tail call of libc's
 * own. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stint/api.h>
#include <threads.h>

#include "plain_lock.h"
#include "scope_state.h"
#include "thread.h"

/* libc's own functions, found at the first call of any: that may come from a constructor before any of ours. */
static struct {
    int (*mutex_lock)(pthread_mutex_t *);
    int (*mutex_trylock)(pthread_mutex_t *);
    int (*mutex_timedlock)(pthread_mutex_t *, const struct timespec *);
    int (*mutex_clocklock)(pthread_mutex_t *, clockid_t, const struct timespec *);
    int (*mutex_unlock)(pthread_mutex_t *);
    int (*rwlock_rdlock)(pthread_rwlock_t *);
    int (*rwlock_tryrdlock)(pthread_rwlock_t *);
    int (*rwlock_timedrdlock)(pthread_rwlock_t *, const struct timespec *);
    int (*rwlock_clockrdlock)(pthread_rwlock_t *, clockid_t, const struct timespec *);
    int (*rwlock_wrlock)(pthread_rwlock_t *);
    int (*rwlock_trywrlock)(pthread_rwlock_t *);
    int (*rwlock_timedwrlock)(pthread_rwlock_t *, const struct timespec *);
    int (*rwlock_clockwrlock)(pthread_rwlock_t *, clockid_t, const struct timespec *);
    int (*rwlock_unlock)(pthread_rwlock_t *);
    int (*spin_lock)(pthread_spinlock_t *);
    int (*spin_trylock)(pthread_spinlock_t *);
    int (*spin_unlock)(pthread_spinlock_t *);
    int (*once)(pthread_once_t *, void (*)(void));
    int (*c_lock)(mtx_t *);
    int (*c_trylock)(mtx_t *);
    int (*c_timedlock)(mtx_t *, const struct timespec *);
    int (*c_unlock)(mtx_t *);
    void (*c_once)(once_flag *, void (*)(void));
    void (*stream_lock)(FILE *);
    int (*stream_trylock)(FILE *);
    void (*stream_unlock)(FILE *);
} plain;
static atomic_bool plain_found;

static __attribute__((noinline, cold)) void find_plain(void)
{
    *(void **)&plain.mutex_lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
    *(void **)&plain.mutex_trylock = dlsym(RTLD_NEXT, "pthread_mutex_trylock");
    *(void **)&plain.mutex_timedlock = dlsym(RTLD_NEXT, "pthread_mutex_timedlock");
    *(void **)&plain.mutex_clocklock = dlsym(RTLD_NEXT, "pthread_mutex_clocklock");
    *(void **)&plain.mutex_unlock = dlsym(RTLD_NEXT, "pthread_mutex_unlock");
    *(void **)&plain.rwlock_rdlock = dlsym(RTLD_NEXT, "pthread_rwlock_rdlock");
    *(void **)&plain.rwlock_tryrdlock = dlsym(RTLD_NEXT, "pthread_rwlock_tryrdlock");
    *(void **)&plain.rwlock_timedrdlock = dlsym(RTLD_NEXT, "pthread_rwlock_timedrdlock");
    *(void **)&plain.rwlock_clockrdlock = dlsym(RTLD_NEXT, "pthread_rwlock_clockrdlock");
    *(void **)&plain.rwlock_wrlock = dlsym(RTLD_NEXT, "pthread_rwlock_wrlock");
    *(void **)&plain.rwlock_trywrlock = dlsym(RTLD_NEXT, "pthread_rwlock_trywrlock");
    *(void **)&plain.rwlock_timedwrlock = dlsym(RTLD_NEXT, "pthread_rwlock_timedwrlock");
    *(void **)&plain.rwlock_clockwrlock = dlsym(RTLD_NEXT, "pthread_rwlock_clockwrlock");
    *(void **)&plain.rwlock_unlock = dlsym(RTLD_NEXT, "pthread_rwlock_unlock");
    *(void **)&plain.spin_lock = dlsym(RTLD_NEXT, "pthread_spin_lock");
    *(void **)&plain.spin_trylock = dlsym(RTLD_NEXT, "pthread_spin_trylock");
    *(void **)&plain.spin_unlock = dlsym(RTLD_NEXT, "pthread_spin_unlock");
    *(void **)&plain.once = dlsym(RTLD_NEXT, "pthread_once");
    *(void **)&plain.c_lock = dlsym(RTLD_NEXT, "mtx_lock");
    *(void **)&plain.c_trylock = dlsym(RTLD_NEXT, "mtx_trylock");
    *(void **)&plain.c_timedlock = dlsym(RTLD_NEXT, "mtx_timedlock");
    *(void **)&plain.c_unlock = dlsym(RTLD_NEXT, "mtx_unlock");
    *(void **)&plain.c_once = dlsym(RTLD_NEXT, "call_once");
    *(void **)&plain.stream_lock = dlsym(RTLD_NEXT, "flockfile");
    *(void **)&plain.stream_trylock = dlsym(RTLD_NEXT, "ftrylockfile");
    *(void **)&plain.stream_unlock = dlsym(RTLD_NEXT, "funlockfile");
    /* release: who sees the flag sees the functions. Two threads at once find the same. */
    atomic_store_explicit(&plain_found, true, memory_order_release);
}

static inline void have_plain(void)
{
    if (__builtin_expect(!atomic_load_explicit(&plain_found, memory_order_acquire), 0))
        find_plain();
}

/* A function that takes the lock when it returns success or, for a robust mutex, EOWNERDEAD. */
#define TAKING(name, function, success, object, parameters, arguments)                                                 \
    STINT_API int name parameters;                                                                                     \
    int name parameters                                                                                                \
    {                                                                                                                  \
        have_plain();                                                                                                  \
        struct sti_thread *thread = sti_thread_metered;                                                                \
        if (__builtin_expect(thread == NULL, 1))                                                                       \
            return plain.function arguments;                                                                           \
        int result = plain.function arguments;                                                                         \
        if (result == (success) || result == EOWNERDEAD)                                                               \
            sti_scope_take_hold(thread->scope, object);                                                                \
        return result;                                                                                                 \
    }

#define RELEASING(name, function, object, parameters, arguments)                                                       \
    STINT_API int name parameters;                                                                                     \
    int name parameters                                                                                                \
    {                                                                                                                  \
        have_plain();                                                                                                  \
        struct sti_thread *thread = sti_thread_metered;                                                                \
        if (__builtin_expect(thread == NULL, 1))                                                                       \
            return plain.function arguments;                                                                           \
        int result = plain.function arguments;                                                                         \
        if (result == 0)                                                                                               \
            sti_scope_release_hold(thread->scope, object);                                                             \
        return result;                                                                                                 \
    }

TAKING(pthread_mutex_lock, mutex_lock, 0, mutex, (pthread_mutex_t * mutex), (mutex))
TAKING(pthread_mutex_trylock, mutex_trylock, 0, mutex, (pthread_mutex_t * mutex), (mutex))
TAKING(pthread_mutex_timedlock, mutex_timedlock, 0, mutex, (pthread_mutex_t * mutex, const struct timespec *until),
       (mutex, until))
TAKING(pthread_mutex_clocklock, mutex_clocklock, 0, mutex,
       (pthread_mutex_t * mutex, clockid_t clock, const struct timespec *until), (mutex, clock, until))
RELEASING(pthread_mutex_unlock, mutex_unlock, mutex, (pthread_mutex_t * mutex), (mutex))

TAKING(pthread_rwlock_rdlock, rwlock_rdlock, 0, lock, (pthread_rwlock_t * lock), (lock))
TAKING(pthread_rwlock_tryrdlock, rwlock_tryrdlock, 0, lock, (pthread_rwlock_t * lock), (lock))
TAKING(pthread_rwlock_timedrdlock, rwlock_timedrdlock, 0, lock, (pthread_rwlock_t * lock, const struct timespec *until),
       (lock, until))
TAKING(pthread_rwlock_clockrdlock, rwlock_clockrdlock, 0, lock,
       (pthread_rwlock_t * lock, clockid_t clock, const struct timespec *until), (lock, clock, until))
TAKING(pthread_rwlock_wrlock, rwlock_wrlock, 0, lock, (pthread_rwlock_t * lock), (lock))
TAKING(pthread_rwlock_trywrlock, rwlock_trywrlock, 0, lock, (pthread_rwlock_t * lock), (lock))
TAKING(pthread_rwlock_timedwrlock, rwlock_timedwrlock, 0, lock, (pthread_rwlock_t * lock, const struct timespec *until),
       (lock, until))
TAKING(pthread_rwlock_clockwrlock, rwlock_clockwrlock, 0, lock,
       (pthread_rwlock_t * lock, clockid_t clock, const struct timespec *until), (lock, clock, until))
RELEASING(pthread_rwlock_unlock, rwlock_unlock, lock, (pthread_rwlock_t * lock), (lock))

TAKING(pthread_spin_lock, spin_lock, 0, lock, (pthread_spinlock_t * lock), (lock))
TAKING(pthread_spin_trylock, spin_trylock, 0, lock, (pthread_spinlock_t * lock), (lock))
RELEASING(pthread_spin_unlock, spin_unlock, lock, (pthread_spinlock_t * lock), (lock))

_Static_assert(thrd_success == 0, "the macros take 0 for success");
TAKING(mtx_lock, c_lock, 0, mutex, (mtx_t * mutex), (mutex))
TAKING(mtx_trylock, c_trylock, 0, mutex, (mtx_t * mutex), (mutex))
TAKING(mtx_timedlock, c_timedlock, 0, mutex, (mtx_t * mutex, const struct timespec *until), (mutex, until))
RELEASING(mtx_unlock, c_unlock, mutex, (mtx_t * mutex), (mutex))

TAKING(ftrylockfile, stream_trylock, 0, stream, (FILE * stream), (stream))
STINT_API void flockfile(FILE *stream);
STINT_API void funlockfile(FILE *stream);

void flockfile(FILE *stream)
{
    have_plain();
    plain.stream_lock(stream);
    if (sti_thread_metered != NULL)
        sti_scope_take_hold(sti_thread_metered->scope, stream);
}

void funlockfile(FILE *stream)
{
    have_plain();
    plain.stream_unlock(stream);
    if (sti_thread_metered != NULL)
        sti_scope_release_hold(sti_thread_metered->scope, stream);
}

/* A once that is interrupted stays half done for ever, and every other thread waits for it. An exception may leave its
 * function; then it is not held any more either. */
struct once_hold {
    struct sti_scope *scope;
    const volatile void *object;
};

static struct once_hold begin_once(struct sti_scope *scope, const volatile void *flag)
{
    struct once_hold hold = { scope, sti_hold_of_kind(flag, STI_HOLD_ONCE) };
    sti_scope_take_hold(scope, hold.object);
    return hold;
}

static void end_once(struct once_hold *hold)
{
    sti_scope_release_hold(hold->scope, hold->object);
}

STINT_API int pthread_once(pthread_once_t *flag, void (*function)(void));
STINT_API void call_once(once_flag *flag, void (*function)(void));

int pthread_once(pthread_once_t *flag, void (*function)(void))
{
    have_plain();
    struct sti_thread *thread = sti_thread_metered;
    if (__builtin_expect(thread == NULL, 1))
        return plain.once(flag, function);
    __attribute__((cleanup(end_once), unused)) struct once_hold hold = begin_once(thread->scope, flag);
    return plain.once(flag, function);
}

void call_once(once_flag *flag, void (*function)(void))
{
    have_plain();
    struct sti_thread *thread = sti_thread_metered;
    if (__builtin_expect(thread == NULL, 1)) {
        plain.c_once(flag, function);
        return;
    }
    __attribute__((cleanup(end_once), unused)) struct once_hold hold = begin_once(thread->scope, flag);
    plain.c_once(flag, function);
}

int sti_plain_mutex_lock(pthread_mutex_t *mutex)
{
    have_plain();
    return plain.mutex_lock(mutex);
}

int sti_plain_mutex_trylock(pthread_mutex_t *mutex)
{
    have_plain();
    return plain.mutex_trylock(mutex);
}

int sti_plain_mutex_unlock(pthread_mutex_t *mutex)
{
    have_plain();
    return plain.mutex_unlock(mutex);
}
