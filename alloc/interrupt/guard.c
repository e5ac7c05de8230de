/* SPDX-License-Identifier: MIT
 *
 * What a scope has to release when it is left: guards, resources of stint_with, and mutexes. Thread of the scope only,
 * but for the mutexes, which any thread may take. */
#include "guard.h"

#include <errno.h>
#include <stddef.h>
#include <stint/interrupt.h>

#include "alloc/platform/clock.h"
#include "alloc/platform/module.h"
#include "alloc/platform/process.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"
#include "boundary.h"
#include "hook.h"
#include "pushed.h"

/* --- Guards: the innermost scope's list of release actions, on the stack frames that pushed them. Thread of the scope
 * only. A guard is off the list before its release runs, so none runs twice. The mutexes that the scope holds are on a
 * list of their own, because a guard that somebody forgot to pop must not be looked at when the scope has ended; both
 * are numbered in the order of their pushes. */

/* A longjmp that has left the guard's block, and not its frame, has left it on the list: pushed again it would lead to
 * itself. So far up the stack those of its own frame are looked for. */
#define FRAME_LOOKED_AT ((uintptr_t)4096)

static __attribute__((noinline)) void guard_push(struct sti_scope *scope, stint_guard *guard, stint_guard_fn *release,
                                                 void *arg)
{
    uintptr_t end = (uintptr_t)guard + FRAME_LOOKED_AT;
    if (scope->guards != NULL && (uintptr_t)scope->guards < end)
        sti_pushed_take_off(scope, &scope->guards, guard, end);
    *guard = (stint_guard){ .function_ = release, .arg_ = arg, .order_ = ++scope->pushes };
    sti_pushed_add(&scope->guards, guard);
}

void stint_guard_push(stint_guard *guard, stint_guard_fn *release, void *arg)
{
    const struct sti_thread *thread = sti_thread_metered;
    if (thread != NULL)
        guard_push(thread->scope, guard, release, arg);
    else
        *guard = (stint_guard){ .function_ = release, .arg_ = arg };
}

/* Mostly it is the newest. */
static inline bool guard_take_off(struct sti_scope *scope, const stint_guard *guard)
{
    if (scope->guards != guard || guard->check_ != sti_pushed_check(guard))
        return sti_pushed_take_off(scope, &scope->guards, guard, UINTPTR_MAX);
    scope->guards = guard->below_;
    return true;
}

/* Where the list leads back to it, that ends there. */
static void release_once(stint_guard *guard)
{
    stint_guard_fn *release = guard->function_;
    guard->function_ = NULL;
    guard->check_ = ~sti_pushed_check(guard);
    if (release != NULL)
        sti_boundary_release(release, guard->arg_);
}

void stint_guard_pop(stint_guard *guard, bool run)
{
    const struct sti_thread *thread = sti_thread_metered;
    if (thread == NULL) {
        if (run)
            release_once(guard);
        guard->function_ = NULL; /* outside of scopes there is no list to tell that it has been popped */
        return;
    }
    if (!guard_take_off(thread->scope, guard) || !run)
        return;
    stint_mask();
    release_once(guard);
    stint_unmask();
}

static stint_guard *guard_newest(struct sti_scope *scope)
{
    return sti_pushed_at(scope, &scope->guards);
}

static void abandon_mutexes_newer_than_the_guards(struct sti_scope *scope)
{
    const stint_guard *guard = guard_newest(scope);
    while (scope->mutexes != NULL && (guard == NULL || scope->mutexes->order_ > guard->order_))
        sti_mutex_abandon_newest(scope);
}

void sti_guard_run_below(struct sti_scope *scope, uintptr_t address)
{
    while (guard_newest(scope) != NULL && (uintptr_t)scope->guards < address) {
        abandon_mutexes_newer_than_the_guards(scope);
        stint_guard *guard = scope->guards;
        scope->guards = guard->below_;
        release_once(guard);
    }
}

void sti_guard_run_all(struct sti_scope *scope)
{
    scope->masks++;
    sti_mutex_poison_all(scope);
    sti_guard_run_below(scope, UINTPTR_MAX);
    abandon_mutexes_newer_than_the_guards(scope);
}

void sti_guard_leave(struct sti_scope *scope, const struct sti_way *way)
{
    stint_guard *guard;
    scope->masks++;
    while ((guard = sti_pushed_take_left(scope, &scope->guards, way)) != NULL)
        release_once(guard);
    scope->masks--;
}

/* --- stint_with: a resource with its guard and its masks in the right places. Any thread.
 *
 * The mask is a guard, too, for a longjmp out of acquire. Both guards are popped by cleanup attributes, so that a C++
 * exception out of acquire or use, or an end of the thread, does the same as a return. */

struct held {
    stint_release_fn *release;
    void *arg;
    void *resource;
};

static void release_held(void *held_resource)
{
    const struct held *held = held_resource;
    held->release(held->arg, held->resource);
}

static void end_mask(void *unused)
{
    (void)unused;
    stint_unmask();
}

/* The guard is pushed before the mask ends. */
static int acquire_guarded(stint_acquire_fn *acquire, struct held *held, stint_guard *guard)
{
    stint_mask();
    __attribute__((cleanup(stint_guard_end_))) stint_guard masked = { .function_ = NULL };
    stint_guard_push(&masked, end_mask, NULL);
    int error = acquire(held->arg, &held->resource);
    if (error == 0)
        stint_guard_push(guard, release_held, held);
    return error;
}

STI_CALLING_CODE int stint_with(stint_acquire_fn *acquire, stint_use_fn *use, stint_release_fn *release, void *arg)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (acquire == NULL || use == NULL || release == NULL)
        return EINVAL;
    struct held held = { .release = release, .arg = arg };
    __attribute__((cleanup(stint_guard_end_))) stint_guard guard = { .function_ = NULL };
    int error = acquire_guarded(acquire, &held, &guard);
    return error != 0 ? error : use(arg, held.resource);
}

/* --- The poisoning mutex: a mutex of libc's, taken so that interrupts do not wait for it, and a record of itself on a
 * list of the scope that holds it. Any thread.
 *
 * Its condition, touched only by the thread that has the lock:
 *
 *   WHOLE     what it protects is                     abandoned: POISONED
 *   POISONED  the holder was stopped                  lock: REPORTED, EOWNERDEAD; while still held, in a guard,
 *                                                     consistent: WHOLE, unlock: stays
 *   REPORTED  the holder knows                        consistent: WHOLE; unlock: LOST; abandoned: POISONED
 *   LOST      and did nothing about it; for ever      lock: ENOTRECOVERABLE
 *
 * Abandoned: the holder's scope was interrupted or has ended, or its thread has. The last is seen by libc, for which
 * the mutex is a robust one. libc finds the caller that locks twice too, as it is an error-checking one.
 *
 * The record's fields are ordered by the lock as well. Only the mark of the holder is read without it, by a caller who
 * asks whether it is the holder. relaxed: the mark is the caller's own only if it stored it itself and has not cleared
 * it yet; whatever else it reads, stale or not, is the mark of another, or none. */

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
    __atomic_store_n(&mutex->holder_, mark, __ATOMIC_RELAXED);
}

static uintptr_t mutex_holder(const stint_mutex *mutex)
{
    return __atomic_load_n(&mutex->holder_, __ATOMIC_RELAXED);
}

static int error_of(const stint_mutex *mutex)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    return mutex == NULL ? EINVAL : 0;
}

static int error_unless_held(const stint_mutex *mutex)
{
    int error = error_of(mutex);
    return error == 0 && mutex_holder(mutex) != own_mark() ? EPERM : error;
}

static void mutex_put_on_list(stint_mutex *mutex)
{
    struct sti_scope *scope = sti_scope_metered();
    mutex->link_ = NULL;
    if (scope == NULL)
        return;
    mutex->order_ = ++scope->pushes;
    mutex->below_ = scope->mutexes;
    mutex->link_ = &scope->mutexes;
    if (mutex->below_ != NULL)
        mutex->below_->link_ = &mutex->below_;
    scope->mutexes = mutex;
}

static void mutex_take_off_list(const stint_mutex *mutex)
{
    if (mutex->link_ == NULL)
        return;
    *mutex->link_ = mutex->below_;
    if (mutex->below_ != NULL)
        mutex->below_->link_ = mutex->link_;
}

static int mutex_release(stint_mutex *mutex)
{
    mutex_take_off_list(mutex);
    set_holder(mutex, 0);
    return sti_real_mutex_unlock(&mutex->lock_);
}

/* libc's mutex was asked for, and has answered. */
static int mutex_locked(stint_mutex *mutex, int answer)
{
    if (answer == EOWNERDEAD) {
        pthread_mutex_consistent(&mutex->lock_);
        mutex->condition_ = POISONED;
    } else if (answer != 0) {
        return answer;
    }
    if (mutex->condition_ == LOST) {
        sti_real_mutex_unlock(&mutex->lock_);
        return ENOTRECOVERABLE;
    }
    set_holder(mutex, own_mark());
    mutex_put_on_list(mutex);
    if (mutex->condition_ != POISONED)
        return 0;
    mutex->condition_ = REPORTED;
    return EOWNERDEAD;
}

int stint_mutex_init(stint_mutex *mutex)
{
    int error = error_of(mutex);
    if (error != 0)
        return error;
    *mutex = (stint_mutex){ .condition_ = WHOLE };
    pthread_mutexattr_t kind;
    error = pthread_mutexattr_init(&kind);
    if (error != 0)
        return error;
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    error = pthread_mutex_init(&mutex->lock_, &kind);
    pthread_mutexattr_destroy(&kind);
    return error;
}

int stint_mutex_destroy(stint_mutex *mutex)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (mutex == NULL)
        return 0;
    return mutex_holder(mutex) != 0 ? EBUSY : pthread_mutex_destroy(&mutex->lock_);
}

/* Until somebody has the lock for us, or an interrupt has come that can be delivered here: EINTR. libc's lock cannot be
 * left but by the clock, so it is looked at from time to time. */
static int await_lock(stint_mutex *mutex, bool uninterruptible)
{
    int answer;
    sti_blocking_sleep();
    do {
        uint64_t look = sti_clock_now() + LOOK_NS;
        const struct timespec until = { (time_t)(look / 1000000000), (long)(look % 1000000000) };
        answer = sti_real_mutex_clocklock(&mutex->lock_, CLOCK_MONOTONIC, &until);
    } while (answer == ETIMEDOUT && (uninterruptible || !sti_waking_is_due()));
    sti_blocking_awake();
    return answer == ETIMEDOUT ? EINTR : answer;
}

static __attribute__((noinline)) int lock_slowly(stint_mutex *mutex)
{
    int answer = EINTR;
    for (bool uninterruptible = false; answer == EINTR; uninterruptible = true) {
        answer = await_lock(mutex, uninterruptible);
        if (answer == EINTR && sti_waking_deliver())
            return ECANCELED;
    }
    return mutex_locked(mutex, answer);
}

int stint_mutex_lock(stint_mutex *mutex)
{
    int error = error_of(mutex);
    if (error != 0)
        return error;
    int answer = sti_real_mutex_trylock(&mutex->lock_);
    if (__builtin_expect(answer == EBUSY, 0))
        return lock_slowly(mutex);
    return mutex_locked(mutex, answer);
}

int stint_mutex_trylock(stint_mutex *mutex)
{
    int error = error_of(mutex);
    if (error != 0)
        return error;
    int answer = sti_real_mutex_trylock(&mutex->lock_);
    return mutex_locked(mutex, answer == EDEADLK ? EBUSY : answer);
}

int stint_mutex_unlock(stint_mutex *mutex)
{
    int error = error_unless_held(mutex);
    if (error != 0)
        return error;
    if (mutex->condition_ == REPORTED)
        mutex->condition_ = LOST;
    return mutex_release(mutex);
}

int stint_mutex_consistent(stint_mutex *mutex)
{
    int error = error_unless_held(mutex);
    if (error != 0)
        return error;
    if (mutex->condition_ == WHOLE)
        return EINVAL;
    mutex->condition_ = WHOLE;
    return 0;
}

void sti_mutex_poison_all(struct sti_scope *scope)
{
    for (stint_mutex *mutex = scope->mutexes; mutex != NULL; mutex = mutex->below_)
        mutex->condition_ = POISONED;
}

void sti_mutex_abandon_newest(struct sti_scope *scope)
{
    scope->mutexes->condition_ = POISONED;
    mutex_release(scope->mutexes);
}

void sti_mutex_abandon_all(struct sti_scope *scope)
{
    while (scope->mutexes != NULL)
        sti_mutex_abandon_newest(scope);
}
