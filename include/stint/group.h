/* SPDX-License-Identifier: MIT
 *
 * The group: tasks that are waited for together, however many they are and become: tasks may add more to their own
 * group. A group is idle when all that were added have resolved. The ideas are those of oneTBB's task_group and of Go's
 * errgroup; unlike stint_when_all it needs neither the futures nor their number. */
#ifndef STINT_GROUP_H
#define STINT_GROUP_H

#include <stint/pool.h>

STINT_BEGIN_DECLS

typedef struct stint_group stint_group;

/* Make a group, which is idle. It is the caller's, to be released.
 *
 * 0; EINVAL: group is NULL; ENOMEM. Any thread. */
STINT_API int stint_group_create(stint_group **group);

/* Submit fn(arg) to a pool as stint_submit does, as one of the group, without a future for the caller. A value that the
 * task leaves is lost: where values are wanted, keep the futures and add them (stint_group_add).
 *
 * As stint_submit, and when it fails nothing was submitted; EINVAL: also when group is NULL. Any thread, also in tasks
 * of the group. */
STINT_API int stint_group_submit(stint_group *group, stint_pool *pool, stint_fn *fn, void *arg,
                                 const stint_options *options);

/* Count a future with the group until it has resolved. It may be released afterwards.
 *
 * 0; EINVAL: group or future is NULL; ENOMEM. Any thread. */
STINT_API int stint_group_add(stint_group *group, stint_future *future);

/* Wait until the group is idle. *outcome (which may be NULL) is Ok if all that have resolved since the group was made
 * are; otherwise it has the status, reason, error and payload of the first that was not. (That one cancels none of the
 * others.) Its usage is their sum, as stint_when_all has it; its payload stays until the group is released; it has no
 * value. Inside a task this waits for one after the other of them, and runs those that have not started, as
 * stint_future_wait does.
 *
 * 0, also for a group that is idle; EINVAL: group is NULL; EDEADLK: the task that waits is one of the group; otherwise
 * as stint_future_wait. Any thread. */
STINT_API int stint_group_wait(stint_group *group, stint_outcome *outcome);

/* The same, for at most timeout_ns nanoseconds; nothing is run here. Also ETIMEDOUT. Any thread. */
STINT_API int stint_group_wait_for(stint_group *group, uint64_t timeout_ns, stint_outcome *outcome);

/* Make *idle a future that resolves when the group is idle next, now if it is, with the outcome that stint_group_wait
 * fills: for callbacks, completion queues, stint_when_any. Cancelling it does nothing. A task of the group that waits
 * for it gets EDEADLK. It is the caller's, to be released, and NULL after any error.
 *
 * 0; EINVAL: an argument is NULL; ENOMEM. Any thread. */
STINT_API int stint_group_when_idle(stint_group *group, stint_future **idle);

/* Cancel all that are in the group now, as stint_future_cancel does. NULL does nothing. Any thread. */
STINT_API void stint_group_cancel(stint_group *group);

/* Give the group back. The tasks in it go on. NULL does nothing. Any thread; no other call on the group may be under
 * way or follow, but by its own tasks. */
STINT_API void stint_group_release(stint_group *group);

STINT_END_DECLS

#endif
