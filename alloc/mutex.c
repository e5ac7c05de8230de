/* SPDX-License-Identifier: MIT
 *
 * The poisoning mutex: a mutex of libc's, taken so that interrupts do not wait for it, and a record of itself on a list
 * of the scope that holds it. Any thread.
 *
 * Its condition, touched only by the thread that has the lock:
 *
 *   WHOLE     what it protects is                     abandoned: POISONED
 *   POISONED  the holder was stopped                  lock: REPORTED, EOWNERDEAD; while still held, in a guard,
 *                                                     consistent: WHOLE, unlock: stays
 *   REPORTED  the holder knows                        consistent: WHOLE; unlock: LOST; abandoned: POISONED
 *   LOST      and did nothing about it; for ever      lock: ENOTRECOVERABLE
 *
 * Abandoned: the holder's scope was interrupted or has ended, or its thread has. The last is seen by libc, for which the
 * mutex is a robust one. libc finds the caller that locks twice too, as it is an error-checking one.
 *
 * The record's fields are ordered by the lock as well. Only the mark of the holder is read without it, by a caller who
 * asks whether it is the holder. relaxed: the mark is the caller's own only if it stored it itself and has not cleared it
 * yet; whatever else it reads, stale or not, is the mark of another, or none. */
#include <errno.h>
#include <stint/mutex.h>

#include "blocking.h"
#include "clock.h"
#include "mutex.h"
#include "plain_lock.h"
#include "scope_state.h"
#include "thread.h"
#include "waking.h"

#define LOOK_NS UINT64_C(20000000)

enum { WHOLE, POISONED, REPORTED, LOST };

/* No two living threads have the same. */
static uintptr_t own_mark(void)
{
    return (uintptr_t)&sti_thread_metered;
}

/* The header is read by C++ too, where there is no _Atomic. */
static void set_holder(stint_mutex *mutex, uintptr_t mark)
{
    __atomic_store_n(&mutex->holder, mark, __ATOMIC_RELAXED);
}

static uintptr_t holder(const stint_mutex *mutex)
{
    return __atomic_load_n(&mutex->holder, __ATOMIC_RELAXED);
}

static void put_on_list(stint_mutex *mutex)
{
    struct sti_thread *thread = sti_thread_metered;
    mutex->link = NULL;
    if (thread == NULL)
        return;
    struct sti_scope *scope = thread->scope;
    mutex->order = ++scope->pushes;
    mutex->below = scope->mutexes;
    mutex->link = &scope->mutexes;
    if (mutex->below != NULL)
        mutex->below->link = &mutex->below;
    scope->mutexes = mutex;
}

static void take_off_list(const stint_mutex *mutex)
{
    if (mutex->link == NULL)
        return;
    *mutex->link = mutex->below;
    if (mutex->below != NULL)
        mutex->below->link = mutex->link;
}

static int release(stint_mutex *mutex)
{
    take_off_list(mutex);
    set_holder(mutex, 0);
    return sti_plain_mutex_unlock(&mutex->lock);
}

/* libc's mutex was asked for, and has answered. */
static int locked(stint_mutex *mutex, int answer)
{
    if (answer == EOWNERDEAD) {
        pthread_mutex_consistent(&mutex->lock);
        mutex->condition = POISONED;
    } else if (answer != 0) {
        return answer;
    }
    if (mutex->condition == LOST) {
        sti_plain_mutex_unlock(&mutex->lock);
        return ENOTRECOVERABLE;
    }
    set_holder(mutex, own_mark());
    put_on_list(mutex);
    if (mutex->condition != POISONED)
        return 0;
    mutex->condition = REPORTED;
    return EOWNERDEAD;
}

int stint_mutex_init(stint_mutex *mutex)
{
    if (mutex == NULL)
        return EINVAL;
    *mutex = (stint_mutex){ .condition = WHOLE };
    pthread_mutexattr_t kind;
    int error = pthread_mutexattr_init(&kind);
    if (error != 0)
        return error;
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    error = pthread_mutex_init(&mutex->lock, &kind);
    pthread_mutexattr_destroy(&kind);
    return error;
}

int stint_mutex_destroy(stint_mutex *mutex)
{
    if (mutex == NULL)
        return 0;
    return holder(mutex) != 0 ? EBUSY : pthread_mutex_destroy(&mutex->lock);
}

/* Until somebody has the lock for us, or an interrupt has come that can be delivered here: EINTR. libc's lock cannot be
 * left but by the clock, so it is looked at from time to time. */
static int await_lock(stint_mutex *mutex, bool deaf)
{
    int answer;
    sti_blocking_sleep();
    do {
        uint64_t look = sti_clock_now() + LOOK_NS;
        const struct timespec until = { (time_t)(look / 1000000000), (long)(look % 1000000000) };
        answer = sti_plain_mutex_clocklock(&mutex->lock, CLOCK_MONOTONIC, &until);
    } while (answer == ETIMEDOUT && (deaf || !sti_waking_is_due()));
    sti_blocking_awake();
    return answer == ETIMEDOUT ? EINTR : answer;
}

static __attribute__((noinline)) int lock_slowly(stint_mutex *mutex)
{
    int answer = EINTR;
    for (bool deaf = false; answer == EINTR; deaf = true) {
        answer = await_lock(mutex, deaf);
        if (answer == EINTR && sti_waking_deliver())
            return ECANCELED;
    }
    return locked(mutex, answer);
}

int stint_mutex_lock(stint_mutex *mutex)
{
    if (mutex == NULL)
        return EINVAL;
    int answer = sti_plain_mutex_trylock(&mutex->lock);
    if (__builtin_expect(answer == EBUSY, 0))
        return lock_slowly(mutex);
    return locked(mutex, answer);
}

int stint_mutex_trylock(stint_mutex *mutex)
{
    if (mutex == NULL)
        return EINVAL;
    int answer = sti_plain_mutex_trylock(&mutex->lock);
    return locked(mutex, answer == EDEADLK ? EBUSY : answer);
}

int stint_mutex_unlock(stint_mutex *mutex)
{
    if (mutex == NULL)
        return EINVAL;
    if (holder(mutex) != own_mark())
        return EPERM;
    if (mutex->condition == REPORTED)
        mutex->condition = LOST;
    return release(mutex);
}

int stint_mutex_consistent(stint_mutex *mutex)
{
    if (mutex == NULL)
        return EINVAL;
    if (holder(mutex) != own_mark())
        return EPERM;
    if (mutex->condition == WHOLE)
        return EINVAL;
    mutex->condition = WHOLE;
    return 0;
}

void sti_mutex_poison_all(struct sti_scope *scope)
{
    for (stint_mutex *mutex = scope->mutexes; mutex != NULL; mutex = mutex->below)
        mutex->condition = POISONED;
}

void sti_mutex_abandon_newest(struct sti_scope *scope)
{
    scope->mutexes->condition = POISONED;
    release(scope->mutexes);
}

void sti_mutex_abandon_all(struct sti_scope *scope)
{
    while (scope->mutexes != NULL)
        sti_mutex_abandon_newest(scope);
}
