/* SPDX-License-Identifier: MIT
 *
 * A task that is submitted now may run later. It starts at a time, again and again, when a future has resolved, or
 * after the task before it in a serial queue.
 *
 *     #include <stdio.h>
 *     #include <time.h>
 *     #include <stint/later.h>
 *
 *     static int ring(void *unused, void **value)
 *     {
 *         (void)unused;
 *         (void)value;
 *         puts("it is time");
 *         return 0;
 *     }
 *
 *     int main(void)
 *     {
 *         stint_pool *pool;
 *         stint_future *future;
 *         struct timespec now;
 *         if (stint_pool_create(NULL, &pool) != 0)
 *             return 1;
 *         clock_gettime(CLOCK_MONOTONIC, &now);
 *         uint64_t soon = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec + 10000000; // in 10 ms
 *         if (stint_submit_at(pool, ring, NULL, NULL, soon, &future) == 0) {
 *             stint_future_wait(future, NULL);
 *             stint_future_release(future);
 *         }
 *         return stint_pool_destroy(pool);
 *     } */
#ifndef STINT_LATER_H
#define STINT_LATER_H

#include <stint/detail/api.h>
#include <stint/pool.h>

STINT_BEGIN_DECLS

/* --- At a time, again and again, after a future ------------------------------------------------------------------- */

/* Such tasks wait without a thread and without a slot in the pool's queue. When it is time they take the next slot that
 * is free, before any call of stint_submit. Timers are a hierarchical wheel (Varghese and Lauck 1987), in which any
 * number of them costs next to nothing.
 *
 * They have futures like all tasks: stint_future_cancel ends one at once that has not started. When a pool is shut
 * down, also by draining, those that are not in its queue by then resolve as Cancelled (STINT_REASON_SHUTDOWN), so no
 * shutdown waits for a time to come. A token in the options is looked at when the task would start. */

/* Submit a task that starts at a time: at start_ns, in nanoseconds of CLOCK_MONOTONIC, or as soon after it as there is
 * a worker. A time that has passed means now. The task never starts before its time, and is put into the queue up to 2
 * ms after it. The wall limit and usage.queued_ns count from then. The task is never refused for want of a slot: where
 * the queue is full, or its account has its maximum of waiting tasks, it waits. In everything else this is
 * stint_submit. *future is NULL after an error.
 *
 * Returns 0, or:
 *   EINVAL  pool, fn or future is NULL, start_ns is 0, or the options are refused as by stint_run
 *   EAGAIN  the thread that watches the time cannot be started
 *   E2BIG, ENOTSUP, ESHUTDOWN, ENOMEM  as stint_submit */
STINT_API int stint_submit_at(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options,
                              uint64_t start_ns, stint_future **future);

/* Submit a series of tasks: fn(arg) runs at start_ns, and at each multiple of period_ns after that. Each turn is a task
 * of its own, with these options and a budget of its own, and begins when the one before it has ended. A time that has
 * passed by then is left out, so turns never run beside each other nor in a burst.
 *
 * *future is that of the whole series, and NULL after an error. It resolves
 *   - when a turn has not ended Ok, with the outcome of that turn;
 *   - when a turn has left a value, with that: so a turn ends the series as Ok by setting *value to anything but NULL;
 *   - when it is cancelled, which also cancels the turn that runs, and at a shutdown of the pool;
 *   - when there is no memory for a turn, as an Error with ENOMEM.
 *
 * Its usage is the sum over all turns, as for stint_when_all. The queue in options.completions gets one completion, of
 * the series.
 *
 * Returns 0, or:
 *   EINVAL  as stint_submit_at, or period_ns is 0
 *   EAGAIN, E2BIG, ENOTSUP, ESHUTDOWN, ENOMEM  as stint_submit_at */
STINT_API int stint_submit_every(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options,
                                 uint64_t start_ns, uint64_t period_ns, stint_future **future);

/* Run as a task when a future has resolved: the function for stint_future_then_submit. outcome is that of the future.
 * It is valid during the call, and its value is owned as in a callback. The rest is as for stint_fn. */
typedef int stint_next_fn(const stint_outcome *outcome, void *arg, void **value);

/* Submit a task that starts when a future has resolved, however that ended, and is given the outcome. Unlike a callback
 * it is a task: it has a budget, may block, and has a future of its own, *next, which is NULL after an error. The
 * memory for it is taken here, so nothing can fail later. The first future may be released right afterwards, and a
 * cancellation of *next leaves it as it is. The pool need not be that of the first future.
 *
 * The wall limit and usage.queued_ns count from the moment at which the first future resolved. If the options name no
 * context (token.h), the task has that of the calling task. The promises of the language E and Java's CompletableFuture
 * are chained like this.
 *
 * Returns 0, or:
 *   EINVAL  an argument other than arg and options is NULL, or the options are refused as by stint_run
 *   E2BIG, ENOTSUP, ESHUTDOWN, ENOMEM  as stint_submit */
STINT_API int stint_future_then_submit(stint_future *future, stint_pool *pool, stint_next_fn *fn, void *arg,
                                       const stint_options *options, stint_future **next);

/* --- Serial queues ------------------------------------------------------------------------------------------------ */

/* A serial queue holds tasks of a pool that run one at a time, in the order in which they were submitted. It is for
 * state that belongs to a key (a connection, a document, an actor), in place of a lock. Tasks that wait in it occupy no
 * worker. The idea is that of Grand Central Dispatch's serial queues and of Boost.Asio's strands.
 *
 * What one task wrote, the next one sees. A task that is cancelled before its turn resolves at once and is left out. A
 * task that waits for a later one waits for itself, and gets EDEADLK. */

typedef struct stint_serial stint_serial;

/* Make a serial queue on a pool, in which at most max_waiting tasks wait for their turn; 0: any number. The caller owns
 * the queue, and gives it back with stint_serial_release.
 *
 * Returns 0, or:
 *   EINVAL  serial or pool is NULL
 *   ENOMEM  there is no memory */
STINT_API int stint_serial_create(stint_pool *pool, size_t max_waiting, stint_serial **serial);

/* Submit a task to a serial queue. The wall limit and usage.queued_ns count from its turn. A task may submit to its own
 * queue. The caller owns *future and releases it; it is NULL after an error. The pool must not have been destroyed. In
 * everything else this is stint_submit.
 *
 * Returns 0, or:
 *   EINVAL  serial, fn or future is NULL, or the options are refused as by stint_run
 *   EAGAIN  max_waiting tasks wait already
 *   E2BIG, ENOTSUP, ESHUTDOWN, ENOMEM  as stint_submit */
STINT_API int stint_serial_submit(stint_serial *serial, stint_fn *fn, void *arg, const stint_options *options,
                                  stint_future **future);

/* Give a serial queue back. The tasks that have been submitted go on. No other call on the queue may be under way or
 * follow, except by its own tasks. NULL does nothing. */
STINT_API void stint_serial_release(stint_serial *serial);

STINT_END_DECLS

#endif
