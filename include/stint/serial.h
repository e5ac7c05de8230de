/* SPDX-License-Identifier: MIT
 *
 * The serial queue: tasks of a pool that run one at a time, in the order in which they were submitted; for state that
 * belongs to a key (a connection, a document, an actor), in place of a lock. While its tasks wait they hold no worker.
 * The idea is that of Grand Central Dispatch's serial queues and of Boost.Asio's strands.
 *
 * What one task wrote, the next one sees. One that is cancelled before its turn resolves at once and is left out. One
 * that waits for another which comes after it waits for itself: EDEADLK. */
#ifndef STINT_SERIAL_H
#define STINT_SERIAL_H

#include <stint/pool.h>

STINT_BEGIN_DECLS

typedef struct stint_serial stint_serial;

/* Make a serial queue on a pool, of at most so many tasks that wait for their turn (0: any number). The caller's, to be
 * released.
 * 0; EINVAL: serial or pool is NULL; ENOMEM. Any thread. */
STINT_API int stint_serial_create(stint_serial **serial, stint_pool *pool, size_t max_waiting);

/* Submit a task to it, as stint_submit does; the wall limit and usage.queued_ns count from its turn. A task may submit
 * to its own queue.
 * 0; EINVAL: serial, fn or future is NULL, or an option has no known value; EAGAIN: so many wait already; ESHUTDOWN:
 * its pool is being shut down; ENOMEM; EOWNERDEAD. Any thread; the pool must not have been destroyed. */
STINT_API int stint_serial_submit(stint_serial *serial, stint_fn *fn, void *arg, const stint_options *options,
                                  stint_future **future);

/* Give it back. What has been submitted goes on. NULL does nothing. Any thread. */
STINT_API void stint_serial_release(stint_serial *serial);

STINT_END_DECLS

#endif
