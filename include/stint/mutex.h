/* SPDX-License-Identifier: MIT
 *
 * The poisoning mutex. While a task holds an ordinary mutex, interrupts wait; a task that works long under one cannot
 * be stopped. An interrupt may be delivered to the holder of a stint_mutex: the mutex is then unlocked and poisoned,
 * and whoever locks it next is told that what it protects may be half changed. After Rust's Mutex and the robust
 * mutexes of POSIX, whose answers it gives:
 *
 *     the next lock returns EOWNERDEAD, with the mutex held. The holder repairs what the mutex protects, calls
 *     stint_mutex_consistent and unlocks: the mutex is as new. If it unlocks without that call, every later lock
 *     returns ENOTRECOVERABLE, until the mutex is destroyed and made again. If it is interrupted itself, the next lock
 *     returns EOWNERDEAD again.
 *
 * A mutex belongs to the innermost scope of the thread that locked it. It is poisoned and unlocked
 *   - when that scope is interrupted by a jump: in its turn among the scope's guards, newest first. A guard that is
 *     newer finds it still held, and may repair, call stint_mutex_consistent and unlock it; if it only unlocks it, it
 *     stays poisoned. So a plain unlock needs no guard, and would not help;
 *   - when that scope ends in any other way, Ok included, with the mutex still held: somebody forgot it;
 *   - when the thread ends, for a mutex that was locked outside of scopes.
 * A task in STINT_FAIL is not left by a jump and unlocks by itself; stint_is_interrupted() tells it whether what it
 * leaves is whole.
 *
 * The memory is the caller's, must stay where it is, and must outlive every lock. It is process-private.
 *
 * A task that waits for one gives its place to a substitute worker (blocking.h), and an interrupt ends the wait: some
 * twenty milliseconds after it has come the wait is a sample point, with the mutex not held. Waits in which nothing
 * comes are none. */
#ifndef STINT_MUTEX_H
#define STINT_MUTEX_H

#include <pthread.h>
#include <stint/api.h>

STINT_BEGIN_DECLS

/* Its fields are the library's. */
typedef struct stint_mutex {
    pthread_mutex_t lock_;
    uintptr_t holder_;
    struct stint_mutex *below_;
    struct stint_mutex **link_;
    uint64_t order_;
    int condition_;
} stint_mutex;

/* Make a mutex that nobody holds. 0; EINVAL: mutex is NULL; ENOMEM, EAGAIN: as pthread_mutex_init. */
STINT_API int stint_mutex_init(stint_mutex *mutex);

/* End it. 0, also for NULL; EBUSY: somebody holds it, nothing was done. No call on it may be under way or follow. */
STINT_API int stint_mutex_destroy(stint_mutex *mutex);

/* Lock, and wait for it as long as it takes. Any thread.
 * Held: 0; EOWNERDEAD: it is poisoned. Not held: ENOTRECOVERABLE: it was unlocked without being made consistent;
 * EDEADLK: the calling thread holds it; ECANCELED: the calling task, in STINT_FAIL, is to stop; EINVAL: mutex is
 * NULL. */
STINT_API int stint_mutex_lock(stint_mutex *mutex);

/* The same without waiting. Also EBUSY, instead of EDEADLK too: somebody holds it. */
STINT_API int stint_mutex_trylock(stint_mutex *mutex);

/* Unlock. On the thread that holds it, in the scope that locked it or one inside that.
 * 0; EPERM: the calling thread does not hold it; EINVAL: mutex is NULL. */
STINT_API int stint_mutex_unlock(stint_mutex *mutex);

/* What the mutex protects is whole again. 0; EPERM: the calling thread does not hold it; EINVAL: it is not poisoned, or
 * mutex is NULL. */
STINT_API int stint_mutex_consistent(stint_mutex *mutex);

STINT_END_DECLS

#endif
