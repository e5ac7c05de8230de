/* SPDX-License-Identifier: MIT
 *
 * The serial queue: tasks of a pool that run one at a time, in the order in which they were submitted; for state that
 * belongs to a key (a connection, a document, an actor), in place of a lock. Tasks that wait in it occupy no worker.
 * The idea is that of Grand Central Dispatch's serial queues and of Boost.Asio's strands.
 *
 * What one task wrote, the next one sees. A task that is cancelled before its turn resolves at once and is left out. A
 * task that waits for a later one waits for itself: EDEADLK. */
#ifndef STINT_SERIAL_H
#define STINT_SERIAL_H

#include <stint/pool.h>

STINT_BEGIN_DECLS

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
