/* SPDX-License-Identifier: MIT
 *
 * Overrides of what takes and releases locks, so that no task is interrupted while it holds one. Any thread.
 *
 * pthread_cond_wait and its like need none: when they return, the mutex is held again, and no sample point lies
 * between. C11's functions do not go through pthread's, nor does a stream's lock. Outside a scope each is a tail call
 * of libc's own. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stint/detail/api.h>
#include <threads.h>

#include "alloc/interrupt/hold.h"
#include "alloc/platform/backend.h"
#include "alloc/platform/callstack.h"
#include "alloc/platform/module.h"
#include "alloc/platform/process.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"
#include "override_lock.h"

/* One line for each: X(what the function does with the object, name, result, object, parameters, arguments). */
#define TIME const struct timespec *until
#define LOCK_FUNCTIONS(X)                                                                                              \
    X(OTHER, pthread_mutex_lock, int, mutex, (pthread_mutex_t * mutex), (mutex))                                       \
    X(TAKES, pthread_mutex_trylock, int, mutex, (pthread_mutex_t * mutex), (mutex))                                    \
    X(TAKES, pthread_mutex_timedlock, int, mutex, (pthread_mutex_t * mutex, TIME), (mutex, until))                     \
    X(TAKES, pthread_mutex_clocklock, int, mutex, (pthread_mutex_t * mutex, clockid_t clock, TIME),                    \
      (mutex, clock, until))                                                                                           \
    X(OTHER, pthread_mutex_unlock, int, mutex, (pthread_mutex_t * mutex), (mutex))                                     \
    X(TAKES, pthread_rwlock_rdlock, int, lock, (pthread_rwlock_t * lock), (lock))                                      \
    X(TAKES, pthread_rwlock_tryrdlock, int, lock, (pthread_rwlock_t * lock), (lock))                                   \
    X(TAKES, pthread_rwlock_timedrdlock, int, lock, (pthread_rwlock_t * lock, TIME), (lock, until))                    \
    X(TAKES, pthread_rwlock_clockrdlock, int, lock, (pthread_rwlock_t * lock, clockid_t clock, TIME),                  \
      (lock, clock, until))                                                                                            \
    X(TAKES, pthread_rwlock_wrlock, int, lock, (pthread_rwlock_t * lock), (lock))                                      \
    X(TAKES, pthread_rwlock_trywrlock, int, lock, (pthread_rwlock_t * lock), (lock))                                   \
    X(TAKES, pthread_rwlock_timedwrlock, int, lock, (pthread_rwlock_t * lock, TIME), (lock, until))                    \
    X(TAKES, pthread_rwlock_clockwrlock, int, lock, (pthread_rwlock_t * lock, clockid_t clock, TIME),                  \
      (lock, clock, until))                                                                                            \
    X(RELEASES, pthread_rwlock_unlock, int, lock, (pthread_rwlock_t * lock), (lock))                                   \
    X(TAKES, pthread_spin_lock, int, lock, (pthread_spinlock_t * lock), (lock))                                        \
    X(TAKES, pthread_spin_trylock, int, lock, (pthread_spinlock_t * lock), (lock))                                     \
    X(RELEASES, pthread_spin_unlock, int, lock, (pthread_spinlock_t * lock), (lock))                                   \
    X(OTHER, pthread_once, int, flag, (pthread_once_t * flag, void (*function)(void)), (flag, function))               \
    X(TAKES, mtx_lock, int, mutex, (mtx_t * mutex), (mutex))                                                           \
    X(TAKES, mtx_trylock, int, mutex, (mtx_t * mutex), (mutex))                                                        \
    X(TAKES, mtx_timedlock, int, mutex, (mtx_t * mutex, TIME), (mutex, until))                                         \
    X(RELEASES, mtx_unlock, int, mutex, (mtx_t * mutex), (mutex))                                                      \
    X(OTHER, call_once, void, flag, (once_flag * flag, void (*function)(void)), (flag, function))                      \
    X(OTHER, flockfile, void, stream, (FILE * stream), (stream))                                                       \
    X(TAKES, ftrylockfile, int, stream, (FILE * stream), (stream))                                                     \
    X(OTHER, funlockfile, void, stream, (FILE * stream), (stream))

/* libc's own functions. Each is found at its first call, which may come from a constructor before ours: until then the
 * pointer leads to what finds it, so that later calls ask nothing. To find one takes no lock. relaxed: what the
 * pointers lead to was there before this library, and two threads at once find the same. */
#define POINTER(kind, name, result, object, parameters, arguments)                                                     \
    static result first_##name parameters;                                                                             \
    static result(*_Atomic libc_##name) parameters = first_##name;                                                     \
    STINT_API result name parameters;
#define FIRST_CALL(kind, name, result, object, parameters, arguments)                                                  \
    __attribute__((cold)) static result first_##name parameters                                                        \
    {                                                                                                                  \
        result(*found) parameters;                                                                                     \
        *(void **)&found = sti_libc_function(#name);                                                                   \
        atomic_store_explicit(&libc_##name, found, memory_order_relaxed);                                              \
        return found arguments;                                                                                        \
    }
#define LIBC(name) atomic_load_explicit(&libc_##name, memory_order_relaxed)

LOCK_FUNCTIONS(POINTER)
LOCK_FUNCTIONS(FIRST_CALL)

/* --- mimalloc's mutexes in part of a process (process.h). It does not look after them at a fork(2): one that another
 * thread held is held for ever. What calls mimalloc there is exit(3) and the end of a thread, which use nothing that
 * anybody else does: so its mutexes do nothing. The functions below stand in the place of libc's; the overrides end in
 * tail calls of these, so their caller is the caller here. A compiler that does not optimise makes no tail calls: then
 * it is the caller behind ours. */

static int (*libc_lock)(pthread_mutex_t *mutex);
static int (*libc_unlock)(pthread_mutex_t *mutex);

#define OVERRIDE_FRAMES 3

static bool lock_is_backend(const void *caller)
{
    void *frames[OVERRIDE_FRAMES];
    const struct link_map *backend = sti_module_of(sti_backend_address());
    const struct link_map *ours = sti_module_of(&libc_lock);
    const struct link_map *module = sti_module_of(caller);
    size_t count = module == ours && module != backend ? sti_callstack(frames, OVERRIDE_FRAMES, caller) : 0;
    for (size_t i = 0; i < count && module == ours; i++)
        module = sti_module_of(frames[i]);
    return module == backend;
}

static int lock_in_part(pthread_mutex_t *mutex)
{
    const void *caller = __builtin_extract_return_addr(__builtin_return_address(0));
    return lock_is_backend(caller) ? 0 : libc_lock(mutex);
}

static int unlock_in_part(pthread_mutex_t *mutex)
{
    const void *caller = __builtin_extract_return_addr(__builtin_return_address(0));
    return lock_is_backend(caller) ? 0 : libc_unlock(mutex);
}

STI_FORK_HANDLER void sti_override_lock_in_child(void)
{
    if (!sti_process_is_partial() || libc_lock != NULL)
        return;
    libc_lock = sti_libc_function("pthread_mutex_lock");
    libc_unlock = sti_libc_function("pthread_mutex_unlock");
    atomic_store_explicit(&libc_pthread_mutex_lock, lock_in_part, memory_order_relaxed);
    atomic_store_explicit(&libc_pthread_mutex_unlock, unlock_in_part, memory_order_relaxed);
}

/* A function that takes the lock when it returns success or, for a robust mutex, EOWNERDEAD; one that releases it when
 * it returns success; and those that are written out below. */
#define TAKES(name, object, parameters, arguments)                                                                     \
    int name parameters                                                                                                \
    {                                                                                                                  \
        int result = LIBC(name) arguments;                                                                             \
        if (result == 0 || result == EOWNERDEAD)                                                                       \
            sti_hold_take_lock(object);                                                                                \
        return result;                                                                                                 \
    }
#define RELEASES(name, object, parameters, arguments)                                                                  \
    int name parameters                                                                                                \
    {                                                                                                                  \
        int result = LIBC(name) arguments;                                                                             \
        if (result == 0)                                                                                               \
            sti_hold_release_lock(object);                                                                             \
        return result;                                                                                                 \
    }
#define OTHER(name, object, parameters, arguments)
#define OVERRIDE(kind, name, result, object, parameters, arguments) kind(name, object, parameters, arguments)

_Static_assert(thrd_success == 0, "the macros take 0 for success");
LOCK_FUNCTIONS(OVERRIDE)

/* Of the usual kinds, normal and recursive. To lock one of these cannot fail, nor can it to unlock one that is held, so
 * both end in a tail call of libc's: counted before the lock, and no more before the unlock. */
static inline bool cannot_fail(const pthread_mutex_t *mutex)
{
    return __builtin_expect((unsigned)mutex->__data.__kind <= PTHREAD_MUTEX_RECURSIVE, 1);
}

static __attribute__((noinline)) int lock_checked(pthread_mutex_t *mutex)
{
    int result = LIBC(pthread_mutex_lock)(mutex);
    if (result == 0 || result == EOWNERDEAD)
        sti_hold_take_lock(mutex);
    return result;
}

static __attribute__((noinline)) int lock_by_name(pthread_mutex_t *mutex)
{
    sti_hold_take_lock_by_name(mutex);
    return LIBC(pthread_mutex_lock)(mutex);
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    if (!cannot_fail(mutex))
        return lock_checked(mutex);
    if (!sti_hold_count_lock())
        return lock_by_name(mutex);
    return LIBC(pthread_mutex_lock)(mutex);
}

static __attribute__((noinline)) int unlock_checked(pthread_mutex_t *mutex)
{
    int result = LIBC(pthread_mutex_unlock)(mutex);
    if (result == 0)
        sti_hold_release_lock(mutex);
    return result;
}

static __attribute__((noinline)) int unlock_by_name(pthread_mutex_t *mutex)
{
    sti_hold_release_lock_by_name(mutex);
    return LIBC(pthread_mutex_unlock)(mutex);
}

int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    if (!cannot_fail(mutex))
        return unlock_checked(mutex);
    if (!sti_hold_discount_lock())
        return unlock_by_name(mutex);
    return LIBC(pthread_mutex_unlock)(mutex);
}

void flockfile(FILE *stream)
{
    LIBC(flockfile)(stream);
    sti_hold_take_lock(stream);
}

void funlockfile(FILE *stream)
{
    LIBC(funlockfile)(stream);
    sti_hold_release_lock(stream);
}

/* A once that is interrupted stays half done for ever, and every other thread waits for it. It is held while its
 * function runs, which libc calls by a function of ours, on the thread of the call: one whose function has run costs
 * next to nothing. An exception may leave the function; then it is not held any more either. */
struct once {
    const volatile void *object;
    void (*function)(void);
    struct sti_scope *scope;
};

static _Thread_local struct once once_asked_for;

static void end_once(struct once *once)
{
    sti_scope_release_hold(once->scope, once->object);
}

static void run_held(void)
{
    __attribute__((cleanup(end_once))) struct once once = once_asked_for;
    once.scope = sti_thread_metered->scope;
    sti_hold_take(&once.scope->holds, once.object);
    once.function();
}

static inline bool is_held_once(const volatile void *flag, void (*function)(void))
{
    if (sti_thread_metered == NULL)
        return false;
    once_asked_for.object = sti_hold_of_kind(flag, STI_HOLD_ONCE);
    once_asked_for.function = function;
    return true;
}

int pthread_once(pthread_once_t *flag, void (*function)(void))
{
    return LIBC(pthread_once)(flag, is_held_once(flag, function) ? run_held : function);
}

void call_once(once_flag *flag, void (*function)(void))
{
    LIBC(call_once)(flag, is_held_once(flag, function) ? run_held : function);
}
