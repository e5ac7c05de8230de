/* SPDX-License-Identifier: MIT
 *
 * The group: tasks that somebody waits for together, however many there are and become: tasks may add more to their own
 * group. A group is idle when all that were added have resolved. The ideas are those of oneTBB's task_group and of Go's
 * errgroup; in contrast to stint_when_all nobody has to hold the futures, or to know how many there will be. */
#ifndef STINT_GROUP_H
#define STINT_GROUP_H

#include <stint/pool.h>

STINT_BEGIN_DECLS

typedef struct stint_group stint_group;

/* Make a group, which is idle. The caller's, to be released. 0; EINVAL: group is NULL; ENOMEM. Any thread. */
STINT_API int stint_group_create(stint_group **group);

/* Submit fn(arg) to a pool as stint_submit does, as one of the group, without a future for the caller. The memory that
 * this takes is taken before the submission. A value that it returns is nobody's: who wants values keeps the futures,
 * and adds them. As stint_submit; EINVAL: also when group is NULL. */
STINT_API int stint_group_submit(stint_group *group, stint_pool *pool, stint_fn *fn, void *arg,
                                 const stint_options *options);

/* Have a future counted with the group until it has resolved. It may be released afterwards.
 * 0; EINVAL: group or future is NULL; ENOMEM. Any thread. */
STINT_API int stint_group_add(stint_group *group, stint_future *future);

/* Wait until the group is idle. *outcome (which may be NULL) says Ok if all that have resolved since the group was made
 * are Ok; otherwise status, reason, error and payload of the first of them that was not, which cancels nothing by
 * itself. Its usage is their sum, as stint_when_all's; its payload stays until the group is released; it has no value.
 * Inside a task this is a wait for one after the other of them, which are run right here if nobody has started them, as
 * stint_future_wait says.
 * 0, also for a group that is idle; EINVAL: group is NULL; otherwise as stint_future_wait; EDEADLK: the task that waits
 * is one of the group. */
STINT_API int stint_group_wait(stint_group *group, stint_outcome *outcome);

/* The same, for at most timeout_ns nanoseconds; nothing is run here. Also ETIMEDOUT. */
STINT_API int stint_group_wait_for(stint_group *group, uint64_t timeout_ns, stint_outcome *outcome);

/* A future that resolves when the group is idle next, now if it is, with what stint_group_wait says: for callbacks,
 * completion queues, stint_when_any. Cancelling it does nothing. A task of the group that waits for it hears EDEADLK.
 * The caller's, to be released.
 * 0; EINVAL: an argument is NULL; ENOMEM. Any thread. */
STINT_API int stint_group_when_idle(stint_group *group, stint_future **idle);

/* Cancel all that are in the group now. NULL does nothing. Any thread. */
STINT_API void stint_group_cancel(stint_group *group);

/* Give it back. What is in it goes on. NULL does nothing. Any thread. */
STINT_API void stint_group_release(stint_group *group);

STINT_END_DECLS

#endif
