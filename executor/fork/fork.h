/* SPDX-License-Identifier: MIT
 *
 * Forks that cross threads: how a worker steals subtasks of running tasks, and runs them. What the owner of a fork
 * calls is public (stint/fork.h); where forks wait is split.h. By the worker's own thread. */
#ifndef STI_EXECUTOR_FORK_FORK_H
#define STI_EXECUTOR_FORK_FORK_H

#include <stint/task.h>

#include "executor/base/state.h"

struct sti_group;
struct sti_offer;
struct sti_worker;

/* The thread begins and ends: between the two, forks on it are the worker's. Without memory for that they run in their
 * joins. */
void sti_fork_begin_thread(struct sti_worker *worker);
void sti_fork_end_thread(void);

/* Leave the worker: from now on the thread's forks run in their joins. */
void sti_fork_leave_worker(void);

/* A public fork of another worker, of this group unless it is NULL. Workers that have none are asked for some. */
struct sti_stolen sti_fork_steal(struct sti_worker *worker, const struct sti_group *group);

/* The options of the stolen subtask's task. */
const stint_options *sti_fork_options(struct sti_stolen stolen);

/* The worker is about to sleep in the midst of a task, and so will neither run nor share what it has forked: let others
 * have all of it. */
void sti_fork_share_all(struct sti_worker *worker);

/* Run it to its end, as a stolen subtask of its task. */
void sti_fork_run(struct sti_worker *worker, struct sti_stolen stolen);

#endif
