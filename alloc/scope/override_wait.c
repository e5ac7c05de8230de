/* SPDX-License-Identifier: MIT
 *
 * Overrides of the waits for conditions and semaphores, in tasks with threads of their own (joined_thread.h). A thread
 * that is left by an interrupt tells nobody of it, so that those who wait for it would wait for ever: the threads of a
 * pool that a library has made, and whoever has given them work. So for the threads of such a task these waits are
 * places for an interrupt. Any thread; elsewhere each is a call of libc's own. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/api.h>
#include <threads.h>

#include "alloc/base/clock.h"
#include "alloc/base/module.h"
#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"
#include "alloc/charge/shared_budget.h"
#include "alloc/interrupt/deferral.h"
#include "alloc/interrupt/hold.h"
#include "alloc/interrupt/hook.h"
#include "alloc/interrupt/interrupt.h"
#include "alloc/interrupt/watch.h"
#include "alloc/rollback/semaphore.h"

STINT_API int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
STINT_API int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until);
STINT_API int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                                     const struct timespec *until);
STINT_API int sem_wait(sem_t *semaphore);
STINT_API int sem_timedwait(sem_t *semaphore, const struct timespec *until);
STINT_API int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *until);
STINT_API int cnd_wait(cnd_t *condition, mtx_t *mutex);
STINT_API int cnd_timedwait(cnd_t *condition, mtx_t *mutex, const struct timespec *until);

/* --- The wait. The watch (watch.h) looks at the scope of a thread that waits, and has it wake up when the scope is to
 * be interrupted: as anything may have it, a spurious wake-up, for which the code that waits is made. Whether the
 * thread is in libc's wait by then is not known; so it is woken again and again, ever less often, until it has come
 * out.
 *
 *   thread:  puts the wait on the watch's list ... libc's wait ... takes it off (the watch's lock)
 *   watch:   with its lock: is the scope to be interrupted? Then it broadcasts, and looks again after a while
 *
 * The condition is there while the wait is on the list, since the thread is in libc's wait or about to be. Who takes it
 * off has the lock, so that no broadcast is under way behind it. Once it is awake the thread gives up the mutex, which
 * it would have to give up to go on waiting, and has the interrupt delivered. If that has to wait for something else it
 * keeps the mutex: whoever tells it something between its look at that and its wait would not be heard. */

#define FIRST_AGAIN_NS UINT64_C(250000)
#define LAST_AGAIN_NS UINT64_C(64000000)

struct wait {
    struct sti_watch watch;
    struct sti_scope *scope;
    const struct sti_group *group;
    pthread_cond_t *condition;
    uint64_t again;
};

/* Code that is told to stop by a failed allocation goes on, and does what others wait for, until nothing of the task is
 * left but its threads. */
static bool may_break(const struct sti_scope *scope, const struct sti_group *group)
{
    return scope->on_interrupt != STINT_FAIL || atomic_load_explicit(&group->is_over, memory_order_seq_cst);
}

/* On the watch's thread. */
static uint64_t look(struct sti_watch *watch, uint64_t now)
{
    struct wait *wait = (struct wait *)((char *)watch - offsetof(struct wait, watch));
    uint64_t next = sti_hook_next_look(wait->scope, now);
    if (next != STI_WATCH_AGAIN)
        return next;
    if (!may_break(wait->scope, wait->group))
        return STI_WATCH_NEVER;
    pthread_cond_broadcast(wait->condition);
    if (wait->again < LAST_AGAIN_NS)
        wait->again *= 2;
    return now + wait->again;
}

/* However it is left: a thread may be cancelled in it. */
static void end(struct wait *wait)
{
    sti_watch_end(&wait->watch);
}

static bool is_breakable(struct sti_thread *thread)
{
    const struct sti_share *share = sti_group_member(thread->scope);
    return share != NULL && atomic_load_explicit(&share->group->has_threads, memory_order_relaxed);
}

static bool is_due(const struct sti_thread *thread)
{
    return may_break(thread->scope, sti_group_member(thread->scope)->group) && sti_waking_is_due();
}

/* The calling thread's next wait is one of these; NULL: a common one. */
static inline struct sti_thread *breakable(void)
{
    struct sti_thread *thread = sti_thread_metered;
    return __builtin_expect(thread != NULL, 0) && is_breakable(thread) ? thread : NULL;
}

/* NEVER: as long as it waits here, whatever else is interrupted: its own code has masked interrupts, or holds more than
 * the mutex. */
enum cut { NOT_DUE, NOW, NOT_NOW, NEVER };

static enum cut cut_without(struct sti_thread *thread, pthread_mutex_t *mutex)
{
    if (!is_due(thread))
        return NOT_DUE;
    sti_hold_release_lock(mutex); /* and it stays locked */
    enum cut cut = sti_interrupt_may_break_wait(thread)                        ? NOW
                   : sti_deferral_of_one(thread->scope) == STINT_DEFERRAL_NONE ? NOT_NOW
                                                                               : NEVER;
    sti_hold_take_lock(mutex);
    return cut;
}

/* NOW: it has come back all the same, and the mutex has been given up meanwhile. */
static enum cut deliver(struct sti_thread *thread, pthread_mutex_t *mutex)
{
    enum cut cut = cut_without(thread, mutex);
    if (cut == NOW) {
        pthread_mutex_unlock(mutex);
        sti_interrupt_break_wait(thread);
        pthread_mutex_lock(mutex);
    } else if (cut != NOT_DUE) {
        thread->scope->samples++;
        sti_deferral_note(thread);
    }
    return cut;
}

typedef int wait_fn(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until);

static int wait_on_list(struct sti_thread *thread, wait_fn *plain, pthread_cond_t *condition, pthread_mutex_t *mutex,
                        clockid_t clock, const struct timespec *until)
{
    __attribute__((cleanup(end))) struct wait wait = {
        .watch.look = look,
        .scope = thread->scope,
        .group = sti_group_member(thread->scope)->group,
        .condition = condition,
        .again = FIRST_AGAIN_NS,
    };
    /* Where the watch cannot be started the wait is as long as what it waits for. */
    if (sti_watch_begin(&wait.watch, 0) != 0)
        wait.watch.link = NULL;
    return plain(condition, mutex, clock, until);
}

static __attribute__((noinline)) int wait_breakably(struct sti_thread *thread, wait_fn *plain,
                                                    pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                                                    const struct timespec *until)
{
    enum cut cut = deliver(thread, mutex);
    if (cut == NOW)
        return 0; /* as if woken for nothing */
    int result = cut == NEVER ? plain(condition, mutex, clock, until)
                              : wait_on_list(thread, plain, condition, mutex, clock, until);
    deliver(thread, mutex);
    return result;
}

static int plain_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t unused, const struct timespec *never)
{
    (void)unused;
    (void)never;
    return sti_plain_cond_wait(condition, mutex);
}

static int plain_timed(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t unused,
                       const struct timespec *until)
{
    (void)unused;
    return sti_plain_cond_timedwait(condition, mutex, until);
}

static inline int wait_by(wait_fn *plain, pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                          const struct timespec *until)
{
    struct sti_thread *thread = breakable();
    return __builtin_expect(thread == NULL, 1) ? plain(condition, mutex, clock, until)
                                               : wait_breakably(thread, plain, condition, mutex, clock, until);
}

/* --- The overrides of waits for conditions --- */

int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    return wait_by(plain_wait, condition, mutex, CLOCK_REALTIME, NULL);
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until)
{
    return wait_by(plain_timed, condition, mutex, CLOCK_REALTIME, until);
}

int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                           const struct timespec *until)
{
    return wait_by(sti_plain_cond_clockwait, condition, mutex, clock, until);
}

/* glibc's cnd_t is a pthread_cond_t, its mtx_t a pthread_mutex_t. */
static int of_c11(int error)
{
    return error == 0 ? thrd_success : error == ETIMEDOUT ? thrd_timedout : thrd_error;
}

int cnd_wait(cnd_t *condition, mtx_t *mutex)
{
    return of_c11(pthread_cond_wait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex));
}

int cnd_timedwait(cnd_t *condition, mtx_t *mutex, const struct timespec *until)
{
    return of_c11(pthread_cond_timedwait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex, until));
}

/* --- The overrides of waits for semaphores. One remembers that it was posted while nobody waited, so that such a wait
 * can be made of short ones, between which the thread looks by itself. --- */

#define FIRST_PART_NS 1000000L
#define LAST_PART_NS 32000000L
#define SECOND_NS 1000000000L

static int plain_semaphore(sem_t *semaphore, clockid_t clock, const struct timespec *until)
{
    STI_LIBC_FUNCTION(sem_clockwait)
    return plain(semaphore, clock, until);
}

static struct timespec time_after(clockid_t clock, long nanoseconds)
{
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_nsec += nanoseconds;
    time.tv_sec += time.tv_nsec / SECOND_NS;
    time.tv_nsec %= SECOND_NS;
    return time;
}

static bool is_before(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

/* until: NULL, there is no end. */
static __attribute__((noinline)) int wait_in_parts(struct sti_thread *thread, sem_t *semaphore, clockid_t clock,
                                                   const struct timespec *until)
{
    for (long part = FIRST_PART_NS;; part = part < LAST_PART_NS ? 2 * part : part) {
        if (is_due(thread))
            sti_interrupt_break_wait(thread);
        struct timespec end = time_after(clock, part);
        bool is_last = until != NULL && !is_before(&end, until);
        int saved_errno = errno;
        int result = plain_semaphore(semaphore, clock, is_last ? until : &end);
        if (is_last || result == 0 || errno != ETIMEDOUT)
            return result;
        errno = saved_errno;
    }
}

static inline int noted(sem_t *semaphore, int result)
{
    if (result == 0)
        sti_semaphore_note_taken(semaphore);
    return result;
}

int sem_wait(sem_t *semaphore)
{
    STI_LIBC_FUNCTION(sem_wait)
    struct sti_thread *thread = breakable();
    return noted(semaphore, __builtin_expect(thread == NULL, 1)
                                ? plain(semaphore)
                                : wait_in_parts(thread, semaphore, CLOCK_MONOTONIC, NULL));
}

int sem_timedwait(sem_t *semaphore, const struct timespec *until)
{
    STI_LIBC_FUNCTION(sem_timedwait)
    struct sti_thread *thread = breakable();
    return noted(semaphore, __builtin_expect(thread == NULL, 1)
                                ? plain(semaphore, until)
                                : wait_in_parts(thread, semaphore, CLOCK_REALTIME, until));
}

int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *until)
{
    struct sti_thread *thread = breakable();
    return noted(semaphore, __builtin_expect(thread == NULL, 1) ? plain_semaphore(semaphore, clock, until)
                                                                : wait_in_parts(thread, semaphore, clock, until));
}
