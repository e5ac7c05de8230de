/* SPDX-License-Identifier: MIT
 *
 * Blocking regions: a task says that it is about to sleep, in a system call or on somebody else's lock, and a
 * substitute worker takes its place, so that the processors have something to do. The idea is that of Java's
 * ManagedBlocker and of Go's scheduler, which hands a processor on when its thread enters the system. */
#ifndef STINT_BLOCKING_H
#define STINT_BLOCKING_H

#include <stint/api.h>

STINT_BEGIN_DECLS

/* Between the two the calling task runs nothing that needs a processor. If the pool has fewer than its number of
 * workers at work, and a substitute one left (stint_pool_options.substitutes), that takes the task's place for as long.
 * Worth its price (two uncontended locks; at the first times a thread's start) where the sleep may be a millisecond or
 * more.
 *
 * How many run at once: no more than the pool has workers begin tasks at the same time. A task that comes back from its
 * region goes on at once, it does not wait for a place: until the substitute's present task has ended, both run.
 *
 * A region belongs to the innermost scope of the calling thread. Regions nest: the outermost pair counts. An end
 * without a begin in the same scope does nothing; a region that is open when its scope ends, by an interrupt too, ends
 * with it. Both do nothing outside of a pool's tasks, such as in stint_run on a thread of the program's own.
 *
 * An interrupt reaches the task as ever: a sleeping thread makes no sample points, so it needs a hook (interrupt.h) or
 * to be preemptible. stint_blocking_end is a sample point: what came due meanwhile is delivered there. */
STINT_API void stint_blocking_begin(void);
STINT_API void stint_blocking_end(void);

STINT_END_DECLS

#endif
