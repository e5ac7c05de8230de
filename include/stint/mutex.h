/* SPDX-License-Identifier: MIT
 *
 * The poisoning mutex. While a task holds an ordinary mutex, interrupts wait; a task that works long under one cannot
 * be stopped. An interrupt may be delivered to the holder of a stint_mutex: the mutex is then unlocked and poisoned,
 * and the next lock tells that what it protects may be half changed. After Rust's Mutex and the robust mutexes of
 * POSIX, whose answers it gives:
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
 *   - when that scope ends in any other way, Ok included, with the mutex still held: its unlock was forgotten;
 *   - when the thread ends, for a mutex that was locked outside of scopes.
 * A task in STINT_FAIL is not left by a jump and unlocks by itself; stint_is_interrupted() tells it whether what it
 * leaves is whole.
 *
 * The memory is the caller's, must stay where it is, and must outlive every lock. It is process-private.
 *
 * A task that waits for a mutex gives its place to a substitute worker (blocking.h). An interrupt that becomes due
 * meanwhile ends the wait: some twenty milliseconds later at most the wait is a sample point, with the mutex not held.
 * Other waits are no sample points. */
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

/* Make a mutex, unlocked. 0; EINVAL: mutex is NULL; ENOMEM, EAGAIN: as pthread_mutex_init. Any thread. */
STINT_API int stint_mutex_init(stint_mutex *mutex);

/* End the mutex. 0, also for NULL; EBUSY: it is locked (nothing was done). Any thread; no other call on it may be under
 * way or follow. */
STINT_API int stint_mutex_destroy(stint_mutex *mutex);

/* Lock the mutex, and wait for it as long as it takes.
 *
 * With the mutex held: 0; EOWNERDEAD: it is poisoned. Without: ENOTRECOVERABLE: it was unlocked without having been
 * made consistent; EDEADLK: the calling thread holds it already; ECANCELED: the calling task, in STINT_FAIL, is to
 * stop; EINVAL: mutex is NULL. Any thread. */
STINT_API int stint_mutex_lock(stint_mutex *mutex);

/* The same without waiting. In place of EDEADLK and a wait EBUSY: it is locked. Any thread. */
STINT_API int stint_mutex_trylock(stint_mutex *mutex);

/* Unlock the mutex. On the thread that holds it, in the scope that locked it or one inside that.
 *
 * 0; EPERM: the calling thread does not hold it; EINVAL: mutex is NULL. */
STINT_API int stint_mutex_unlock(stint_mutex *mutex);

/* Say that what the mutex protects is whole again. On the thread that holds it.
 *
 * 0; EPERM: the calling thread does not hold it; EINVAL: it is not poisoned, or mutex is NULL. */
STINT_API int stint_mutex_consistent(stint_mutex *mutex);

STINT_END_DECLS

#endif
