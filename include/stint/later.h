/* SPDX-License-Identifier: MIT
 *
 * Tasks that are submitted now and run later: at a time, again and again, when a future has resolved, or one after the
 * other in a serial queue.
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

/* Tasks that are submitted now and run later: at a time, again and again, or when a future has resolved. All of them
 * wait without a thread and without a slot in the pool's queue; when it is time they take the next slot that is free,
 * before any call of stint_submit. Timers are a hierarchical wheel (Varghese and Lauck 1987): any number of them costs
 * next to nothing.
 *
 * They have futures like all tasks: stint_future_cancel ends one that has not started at once. When a pool is shut
 * down, also by draining, those that are not in its queue by then resolve as Cancelled (STINT_REASON_SHUTDOWN): no
 * shutdown waits for a time to come. A token in the options is looked at when the task would start. */

/* Submit fn(arg) as stint_submit does, to start at start_ns, in nanoseconds of CLOCK_MONOTONIC, or as soon after it as
 * there is a worker; a time that has passed means now. It never starts before, and is put into the queue up to 2 ms
 * after. The wall limit and usage.queued_ns count from then. It is never refused: where the queue is full, or its
 * account has its maximum of waiting tasks, it waits for a slot. *future is NULL after any error.
 *
 * 0; EINVAL: pool, fn or future is NULL, start_ns is 0, or the options are none that stint_submit takes; E2BIG,
 * ENOTSUP, ESHUTDOWN, ENOMEM: as stint_submit; EAGAIN: the thread that watches the time could not be
 * started. Any thread. */
STINT_API int stint_submit_at(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options,
                              uint64_t start_ns, stint_future **future);

/* Run fn(arg) again and again: at start_ns, and at each multiple of period_ns after that. Each turn is a task of its
 * own, with these options and a budget of its own, and begins when the one before it has ended: a time that has passed
 * by then is left out, so turns never run beside each other nor in a burst.
 *
 * *future is that of the whole series. It resolves
 *   - when a turn has not ended Ok, with its outcome;
 *   - when a turn has left a value, with that: so a turn ends the series as Ok by setting *value to anything but NULL;
 *   - when it is cancelled, which also cancels the turn that runs, and at a shutdown of the pool;
 *   - when there is no memory for a turn, as an Error with ENOMEM.
 * Its usage is the sum over all turns, as stint_when_all has it. options.completions gets one completion, of the
 * series. *future is NULL after any error.
 *
 * As stint_submit_at; EINVAL: also when period_ns is 0. Any thread. */
STINT_API int stint_submit_every(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options,
                                 uint64_t start_ns, uint64_t period_ns, stint_future **future);

/* What runs when a future has resolved: its outcome, which is valid during the call and owned as a callback's is. The
 * rest is as for stint_fn. */
typedef int stint_next_fn(const stint_outcome *outcome, void *arg, void **value);

/* Submit a task that starts when this future has resolved, however it did, and is given its outcome. Unlike a callback
 * it is a task: it has a budget, may block, and has a future of its own, *next, which is NULL after any error. Its
 * memory is taken here, so nothing can fail later. The future may be released afterwards; cancelling *next leaves it as
 * it is. The wall limit and usage.queued_ns count from the moment at which the future resolved. The pool need not be
 * that of the future. Where the options name no context (token.h), it has that of the calling task. The promises of
 * the language E and Java's CompletableFuture are chained like this.
 *
 * 0; EINVAL: an argument other than arg and options is NULL, or the options are none that stint_submit takes; E2BIG,
 * ENOTSUP, ESHUTDOWN, ENOMEM: as stint_submit. Any thread, also in callbacks. */
STINT_API int stint_future_then_submit(stint_future *future, stint_pool *pool, stint_next_fn *fn, void *arg,
                                       const stint_options *options, stint_future **next);

/* --- Serial queues ------------------------------------------------------------------------------------------------ */

/* The serial queue: tasks of a pool that run one at a time, in the order in which they were submitted; for state that
 * belongs to a key (a connection, a document, an actor), in place of a lock. Tasks that wait in it occupy no worker.
 * The idea is that of Grand Central Dispatch's serial queues and of Boost.Asio's strands.
 *
 * What one task wrote, the next one sees. A task that is cancelled before its turn resolves at once and is left out. A
 * task that waits for a later one waits for itself: EDEADLK. */

typedef struct stint_serial stint_serial;

/* Make a serial queue on a pool, in which at most max_waiting tasks wait for their turn (0: any number). It is the
 * caller's, to be released.
 *
 * 0; EINVAL: serial or pool is NULL; ENOMEM. Any thread. */
STINT_API int stint_serial_create(stint_pool *pool, size_t max_waiting, stint_serial **serial);

/* Submit a task to the queue, as stint_submit does; the wall limit and usage.queued_ns count from its turn. A task may
 * submit to its own queue. *future is the caller's, to be released, and NULL after any error. The pool must not have
 * been destroyed.
 *
 * 0; EINVAL: serial, fn or future is NULL, or the options are none that stint_submit takes; EAGAIN: max_waiting tasks
 * wait already; E2BIG, ENOTSUP, ESHUTDOWN, ENOMEM: as stint_submit. Any thread. */
STINT_API int stint_serial_submit(stint_serial *serial, stint_fn *fn, void *arg, const stint_options *options,
                                  stint_future **future);

/* Give the queue back. Tasks that have been submitted go on. NULL does nothing. Any thread; no other call on the queue
 * may be under way or follow, but by its own tasks. */
STINT_API void stint_serial_release(stint_serial *serial);

STINT_END_DECLS

#endif
