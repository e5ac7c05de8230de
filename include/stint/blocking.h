/* SPDX-License-Identifier: MIT
 *
 * Blocking regions: a task says that it is about to sleep, in a system call or on somebody else's lock, and a
 * substitute worker takes its place, so that the processors have something to do. The idea is that of Java's
 * ManagedBlocker, and of Go's scheduler, which gives a thread's processor to another when it enters a system call. */
#ifndef STINT_BLOCKING_H
#define STINT_BLOCKING_H

#include <stint/api.h>

STINT_BEGIN_DECLS

/* Begin and end a blocking region, in which the calling task runs nothing that needs a processor. If fewer of the
 * pool's workers are at work than it has, and a substitute is left (stint_pool_options.substitutes), that takes the
 * task's place until the region ends. The price is two uncontended locks, and the start of a thread the first times:
 * worth it where the sleep may last a millisecond or more.
 *
 * Tasks are never begun on more threads at a time than the pool has workers. But a task goes on as soon as its region
 * ends, without waiting for a place: until the substitute's present task has ended, both run.
 *
 * A region belongs to the innermost scope of the calling thread. Regions nest: the outermost pair counts. An end
 * without a begin in the same scope does nothing. A region that is open when its scope ends, also by an interrupt, ends
 * with it. Any thread; both do nothing outside of a pool's tasks, such as in stint_run on a thread of the program.
 *
 * A sleeping thread makes no sample points. For an interrupt to reach the task during the sleep, it needs a hook
 * (interrupt.h), or to be preemptible. stint_blocking_end is a sample point: an interrupt that is due is delivered
 * there. */
STINT_API void stint_blocking_begin(void);
STINT_API void stint_blocking_end(void);

STINT_END_DECLS

#endif
