/* SPDX-License-Identifier: MIT
 *
 * The future: the one place where a task's outcome appears. Each task's future resolves exactly once, whatever happens
 * to the task or its pool. */
#ifndef STINT_FUTURE_H
#define STINT_FUTURE_H

#include <stint/task.h>

STINT_BEGIN_DECLS

typedef struct stint_future stint_future;

/* Whether it has resolved. False for NULL. Any thread; never blocks. */
STINT_API bool stint_future_ready(const stint_future *future);

/* Wait until it has resolved and copy the outcome (outcome may be NULL). May be called again and from several threads:
 * each gets the same outcome, and the value in it has one owner, to be agreed among them. Inside a task of the same
 * pool, an awaited task that nobody has started is run right here, in a scope of its own; and a wait that
 * succeeds is a sample point, so in STINT_JUMP it may not return.
 * 0; EINVAL: future is NULL; EDEADLK: a task waits for itself, or for one that it was itself called to wait for. */
STINT_API int stint_future_wait(stint_future *future, stint_outcome *outcome);

/* The same, for at most timeout_ns nanoseconds (0: just look). An awaited task is never run here.
 * Also ETIMEDOUT: not resolved yet, *outcome untouched. */
STINT_API int stint_future_wait_for(stint_future *future, uint64_t timeout_ns, stint_outcome *outcome);

/* Cancel the task: queued, it resolves at once as Cancelled and never starts; running, it is interrupted at its next
 * sample point; resolved, nothing changes. Its reason is STINT_REASON_TOKEN. NULL does nothing. Any thread. */
STINT_API void stint_future_cancel(stint_future *future);

/* Give the future back. The task goes on if it has not ended. NULL does nothing. Any thread; no call on this future may
 * be under way or follow. */
STINT_API void stint_future_release(stint_future *future);

STINT_END_DECLS

#endif
