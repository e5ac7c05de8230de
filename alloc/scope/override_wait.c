/* SPDX-License-Identifier: MIT
 *
 * Overrides for tasks with threads of their own (joined_thread.h): of the waits for conditions and semaphores, and of
 * what starts threads and waits for their end. Any thread.
 *
 * A thread that is left by an interrupt tells nobody of it, so that those who wait for it would wait for ever: the
 * threads of a pool that a library has made, and whoever has given them work. So for the threads of such a task these
 * waits are places for an interrupt. Elsewhere each is a call of libc's own. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/api.h>
#include <threads.h>
#include <unistd.h>

#include "alloc/base/caller.h"
#include "alloc/base/clock.h"
#include "alloc/base/lasting.h"
#include "alloc/base/module.h"
#include "alloc/base/process.h"
#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"
#include "alloc/charge/shared_budget.h"
#include "alloc/interrupt/hold.h"
#include "alloc/interrupt/hook.h"
#include "alloc/interrupt/interrupt.h"
#include "alloc/interrupt/watch.h"
#include "alloc/rollback/semaphore.h"
#include "joined_thread.h"
#include "started_thread.h"

STINT_API int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
STINT_API int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until);
STINT_API int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                                     const struct timespec *until);
STINT_API int sem_wait(sem_t *semaphore);
STINT_API int sem_timedwait(sem_t *semaphore, const struct timespec *until);
STINT_API int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *until);
STINT_API int cnd_wait(cnd_t *condition, mtx_t *mutex);
STINT_API int cnd_timedwait(cnd_t *condition, mtx_t *mutex, const struct timespec *until);
STINT_API int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *arg);
STINT_API int thrd_create(thrd_t *thread, thrd_start_t function, void *arg);
STINT_API int pthread_join(pthread_t thread, void **value);
STINT_API int pthread_tryjoin_np(pthread_t thread, void **value);
STINT_API int pthread_timedjoin_np(pthread_t thread, void **value, const struct timespec *until);
STINT_API int pthread_clockjoin_np(pthread_t thread, void **value, clockid_t clock, const struct timespec *until);
STINT_API int pthread_detach(pthread_t thread);
STINT_API int thrd_join(thrd_t thread, int *result);
STINT_API int thrd_detach(thrd_t thread);

/* --- The wait. The watch (watch.h) looks at the scope of a thread that waits, and has it wake up when the scope is to
 * be interrupted: as anything may have it, a spurious wake-up, for which the code that waits is made. That is done
 * once, when the thread has given up the mutex, as libc has it do behind the beginning of its wait; until then the
 * watch looks again, ever less often. For who is awake may not have the mutex yet, and the program may end the
 * condition before it has.
 *
 *   thread:  puts the wait on the watch's list ... libc's wait ... takes it off (the watch's lock)
 *   watch:   with its lock: is the scope to be interrupted? And is its thread not the mutex's owner? Then it broadcasts
 *
 * Who takes the wait off the list has the lock, so that no broadcast is under way behind it. Once it is awake the
 * thread gives up the mutex, which it would have to give up to go on waiting, and has the interrupt delivered. If that
 * has to wait for something else it keeps the mutex: whoever tells it something between its look at that and its wait
 * would not be heard.
 *
 * A thread that was not woken by the watch has been woken by the program, and nobody else may have been: it goes on, to
 * do what it was woken for, and is interrupted at its next wait or sample point. (So POSIX has it for cancelled ones.)
 * If the watch has broadcast as well, all who wait have been woken behind that. */

#define FIRST_AGAIN_NS UINT64_C(250000)
#define LAST_AGAIN_NS UINT64_C(64000000)

struct wait {
    struct sti_watch watch;
    struct sti_scope *scope;
    const struct sti_group *group;
    pthread_cond_t *condition;
    const pthread_mutex_t *mutex;
    uint64_t again;
    atomic_bool is_broken; /* before the broadcast; what orders it is that */
};

/* Code that is told to stop by a failed allocation goes on, and does what others wait for, until nothing of the task is
 * left but its threads. */
static bool may_break(const struct sti_scope *scope, const struct sti_group *group)
{
    return scope->on_interrupt != STINT_FAIL || atomic_load_explicit(&group->is_over, memory_order_seq_cst);
}

/* acquire: then libc's wait has begun. */
static bool waits(const struct wait *wait)
{
    return __atomic_load_n(&wait->mutex->__data.__owner, __ATOMIC_ACQUIRE) != wait->scope->thread->id;
}

/* On the watch's thread. */
static uint64_t look(struct sti_watch *watch, uint64_t now)
{
    struct wait *wait = (struct wait *)((char *)watch - offsetof(struct wait, watch));
    uint64_t next = sti_hook_next_look(wait->scope, now);
    if (next != STI_WATCH_AGAIN)
        return next;
    if (!may_break(wait->scope, wait->group) || atomic_load_explicit(&wait->is_broken, memory_order_relaxed))
        return STI_WATCH_NEVER;
    if (waits(wait)) {
        atomic_store_explicit(&wait->is_broken, true, memory_order_relaxed);
        pthread_cond_broadcast(wait->condition);
        return STI_WATCH_NEVER;
    }
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

/* NOW: it has come back all the same, and the mutex has been given up meanwhile; *result says how it was taken again if
 * that is not as ever. */
static enum cut deliver(struct sti_thread *thread, pthread_mutex_t *mutex, int *result)
{
    enum cut cut = cut_without(thread, mutex);
    if (cut == NOW) {
        pthread_mutex_unlock(mutex);
        sti_interrupt_break_wait(thread);
        int error = pthread_mutex_lock(mutex);
        *result = error != 0 ? error : *result;
    } else if (cut != NOT_DUE) {
        thread->scope->samples++;
        sti_deferral_note(thread);
    }
    return cut;
}

typedef int wait_fn(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until);

static int wait_on_list(struct sti_thread *thread, wait_fn *plain, pthread_cond_t *condition, pthread_mutex_t *mutex,
                        clockid_t clock, const struct timespec *until, bool *is_broken)
{
    __attribute__((cleanup(end))) struct wait wait = {
        .watch.look = look,
        .scope = thread->scope,
        .group = sti_group_member(thread->scope)->group,
        .condition = condition,
        .mutex = mutex,
        .again = FIRST_AGAIN_NS,
    };
    /* Where the watch cannot be started the wait is as long as what it waits for. */
    if (sti_watch_begin(&wait.watch, 0) != 0)
        wait.watch.link = NULL;
    int result = plain(condition, mutex, clock, until);
    *is_broken = atomic_load_explicit(&wait.is_broken, memory_order_relaxed);
    return result;
}

static __attribute__((noinline)) int wait_breakably(struct sti_thread *thread, wait_fn *plain,
                                                    pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                                                    const struct timespec *until)
{
    int result = 0; /* as if woken for nothing */
    bool is_broken = false;
    enum cut cut = deliver(thread, mutex, &result);
    if (cut == NOW)
        return result;
    result = cut == NEVER ? plain(condition, mutex, clock, until)
                          : wait_on_list(thread, plain, condition, mutex, clock, until, &is_broken);
    if ((result == 0 && is_broken) || result == ETIMEDOUT)
        deliver(thread, mutex, &result);
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
    if (until != NULL && (until->tv_nsec < 0 || until->tv_nsec >= SECOND_NS))
        return plain_semaphore(semaphore, clock, until); /* which refuses it */
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

/* --- Starting. A thread of the program meets mimalloc before its function is called and not at its first block:
 * mimalloc takes locks there that it does not look after at a fork(2), so it does so while none happens (process.h).
 * And where a task's option says so, a thread that the task starts is the task's.
 *
 * Threads that libc starts for itself (timers, aio) meet mimalloc at their first block all the same, and are
 * nobody's. */

static void *begin(void *argument)
{
    const struct sti_start start = *(struct sti_start *)argument;
    sti_joined_take_ids(pthread_self(), gettid());
    sti_thread_begin();
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
    else
        sti_joined_take_ids(*thread, 0);
    return error;
}

/* What the calling thread's scopes say of a thread that this caller is about to start. */
static stint_threads mode_of(const void *caller)
{
    const struct sti_thread *thread = sti_thread_metered;
    stint_threads mode = STINT_THREADS_FREE;
    for (const struct sti_scope *scope = thread != NULL ? thread->scope : NULL; scope != NULL; scope = scope->outer) {
        if (scope->request->options->threads > mode)
            mode = scope->request->options->threads;
    }
    if (mode == STINT_THREADS_FREE || thread->scope->keeps > 0)
        return STINT_THREADS_FREE;
    const struct link_map *openmp = sti_openmp_of(caller);
    if (openmp != NULL)
        return sti_openmp_can_end(openmp) ? STINT_THREADS_CHARGED : STINT_THREADS_FREE;
    return sti_caller_is_kept(caller) ? STINT_THREADS_FREE : mode;
}

static int create(pthread_t *thread, const pthread_attr_t *attributes, const struct sti_start *wanted,
                  const void *caller)
{
    switch (mode_of(caller)) {
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
