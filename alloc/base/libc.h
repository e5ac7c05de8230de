/* SPDX-License-Identifier: MIT
 *
 * libc's own functions of locks and jumps, whatever this library overrides. Any thread. */
#ifndef STI_ALLOC_BASE_LIBC_H
#define STI_ALLOC_BASE_LIBC_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <time.h>

/* --- libc's own functions of locks, whatever this library overrides: a lock taken with these does not make interrupts wait.
 * Any thread. Without overrides they are called by their names, so that a sanitizer sees them. */

#if STI_OVERRIDES
int sti_plain_mutex_lock(pthread_mutex_t *mutex);
int sti_plain_mutex_trylock(pthread_mutex_t *mutex);
int sti_plain_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until);
int sti_plain_mutex_unlock(pthread_mutex_t *mutex);
int sti_plain_rwlock_rdlock(pthread_rwlock_t *lock);
int sti_plain_rwlock_wrlock(pthread_rwlock_t *lock);
int sti_plain_rwlock_unlock(pthread_rwlock_t *lock);
#else
#define sti_plain_mutex_lock pthread_mutex_lock
#define sti_plain_mutex_trylock pthread_mutex_trylock
#define sti_plain_mutex_unlock pthread_mutex_unlock
#define sti_plain_rwlock_rdlock pthread_rwlock_rdlock
#define sti_plain_rwlock_wrlock pthread_rwlock_wrlock
#define sti_plain_rwlock_unlock pthread_rwlock_unlock
#if defined __SANITIZE_THREAD__
/* The sanitizer does not know the other. */
#define sti_plain_mutex_clocklock(mutex, clock, until) ((void)(until), sched_yield(), sti_timed_out(mutex))
static inline int sti_timed_out(pthread_mutex_t *mutex)
{
    int answer = pthread_mutex_trylock(mutex);
    return answer == EBUSY ? ETIMEDOUT : answer;
}
#else
#define sti_plain_mutex_clocklock pthread_mutex_clocklock
#endif
#endif

/* --- libc's own longjmp, whatever this library overrides: a jump to a landing of ours has seen to what it passes. Any thread. */

#if STI_OVERRIDES
_Noreturn void sti_plain_longjmp(struct __jmp_buf_tag *landing, int value);
#else
#define sti_plain_longjmp longjmp
#endif

#endif
