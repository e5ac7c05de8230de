/* SPDX-License-Identifier: MIT
 *
 * The pool: worker threads that run submitted tasks, each in a scope of its own. */
#ifndef STINT_POOL_H
#define STINT_POOL_H

#include <limits.h>
#include <stint/future.h>
#include <stint/task.h>

STINT_BEGIN_DECLS

typedef struct stint_pool stint_pool;

#define STINT_FOREVER UINT64_MAX /* a time-out that never comes */

typedef struct stint_pool_options {
    /* Worker threads; 0: one for each processor that the calling thread may run on, but no more than the quota of its
     * control group pays for (cpu.max, rounded up). At most 1024. */
    unsigned workers;

    /* Tasks that may wait at once in the submission queue; 0: 4096. Rounded up to a power of two, at least 2, at most
     * 2^24. Tasks that have an account or a priority wait beside it, so many of them again (not rounded), and there one
     * account can take eight times as many places as are left: so there is always one for another. */
    size_t queue_capacity;

    /* Worker threads are called name/0, name/1, ... (15 characters are kept); NULL: "stint". */
    const char *name;

    /* Keep each worker on one processor of those that the calling thread may run on, one after the other. */
    bool pinned;

    /* Spare workers that may stand in for those that sleep in a blocking region (blocking.h) or in a wait for a future; 0:
     * 64; STINT_NO_SPARES: none. At most 1024. Each is started when it is first needed, sleeps when it is not, and ends
     * with the pool; it is called like a worker, with the next number. */
    unsigned spares;

    /* While the process holds more than seven eighths of its memory limit (global.h) and any task runs in it, wait with
     * each task that has not begun, up to 100 ms: so what runs can end before more is asked for, and fewer tasks have to be
     * stopped. Without such a limit: no difference. */
    bool hold_near_memory_limit;

    /* Called on the thread of each worker and each spare as it begins, before it runs anything, and as it ends, when it has
     * run all that it will: with worker_data and its number, which is that of its name. For what a library keeps for each
     * thread, a profiler's registration, a priority. In no task's scope; like a callback they must not wait for a future or
     * shut a pool down (EDEADLK), and must return. NULL: nothing is called. stint_pool_create may have returned before a
     * worker begins; when stint_pool_shutdown returns 0 all have ended. */
    void (*worker_begins)(void *worker_data, unsigned index);
    void (*worker_ends)(void *worker_data, unsigned index);
    void *worker_data;
} stint_pool_options;

#define STINT_NO_SPARES UINT_MAX

/* clang-format off */
#define STINT_POOL_OPTIONS_INIT { 0, 0, NULL, false, 0, false, NULL, NULL, NULL }
/* clang-format on */

/* Start a pool. options may be NULL. Any thread; any number of pools.
 * 0; EINVAL: pool is NULL, or an option is out of its range; ENOMEM; ENOTSUP: as of stint_run; EAGAIN: the system allows
 * no more threads (none of ours is left running). */
STINT_API int stint_pool_create(stint_pool **pool, const stint_pool_options *options);

/* Submit fn(arg) as a task with options (NULL: no limits; copied). *future is the caller's, to be released; it is set
 * before the task can start, and NULL after EAGAIN and ESHUTDOWN. The wall
 * limit counts from here. Never blocks. Any thread, also from inside a task: then a task without account and priority goes
 * to that worker's own deque, where idle workers steal it.
 *
 * The accounts that have tasks waiting take turns, a task each, and so do the tasks without one, as if they had one of
 * their own: however many one account has waiting, another's next task waits for no more than one task of each.
 * 0; EINVAL: pool, fn or future is NULL, or on_interrupt or priority is no known value; EAGAIN: the queue is full (nothing
 * was queued; wait for something and try again); ESHUTDOWN: the pool is being shut down; ENOMEM; EOWNERDEAD: this process
 * was forked from the pool's. */
STINT_API int stint_submit(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options,
                           stint_future **future);

/* The same, but where the queue is full wait for a place, at most timeout_ns nanoseconds (STINT_FOREVER: as long as it
 * takes). Who waits is served in the order of coming, and as long as others wait for a task without account and priority,
 * stint_submit is refused one. The wall limit counts from the call.
 * Instead of EAGAIN: ETIMEDOUT; or EDEADLK, at once: called in a task of this pool, whose workers might all come to wait
 * like that, or in a callback. */
STINT_API int stint_submit_wait(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options,
                                uint64_t timeout_ns, stint_future **future);

typedef enum stint_shutdown {
    STINT_SHUTDOWN_DRAIN = 0, /* accept nothing more, run what is queued to its end */
    STINT_SHUTDOWN_CANCEL,    /* accept nothing more, resolve what is queued as Cancelled, interrupt what runs */

    /* As STINT_SHUTDOWN_DRAIN, but when the time is up, cancel what is left and wait for its end. */
    STINT_SHUTDOWN_DRAIN_THEN_CANCEL,
} stint_shutdown;

/* Shut the pool down and wait until its workers have ended, at most timeout_ns nanoseconds (STINT_FOREVER: as long as
 * it takes). STINT_SHUTDOWN_DRAIN_THEN_CANCEL gives draining so much time, and then waits as long as the tasks need to
 * notice that they are cancelled: it never times out. May be called again: after a time-out, with more time or with
 * STINT_SHUTDOWN_CANCEL; and after success, when it returns 0 at once. Any thread that is not one of the pool's.
 * 0; EINVAL: pool is NULL or how is no known value; EDEADLK: called from inside a task of this pool, or in a callback;
 * ETIMEDOUT: workers are still running, and the shutdown goes on; EOWNERDEAD: this process was forked from the pool's. */
STINT_API int stint_pool_shutdown(stint_pool *pool, stint_shutdown how, uint64_t timeout_ns);

/* Shut down by cancelling if that has not been done, wait for the workers, free the pool. Futures stay valid until they
 * are released. No other call on the pool may be under way or follow.
 * 0, also for NULL; EDEADLK: called from inside a task of this pool, or in a callback (nothing was done); EOWNERDEAD:
 * this process was forked from the pool's (nothing was done, and nothing has to be). */
STINT_API int stint_pool_destroy(stint_pool *pool);

/* How many workers the pool has; 0 for NULL. Any thread. */
STINT_API unsigned stint_pool_workers(const stint_pool *pool);

STINT_END_DECLS

#endif
