/* SPDX-License-Identifier: MIT
 *
 * The walled task: a task of the wall's own pool, whose run is that of a child. Each function says its thread. */
#ifndef STI_EXECUTOR_WALL_WALLED_H
#define STI_EXECUTOR_WALL_WALLED_H

#include "executor/task/continuation.h"
#include "executor/task/task.h"
#include "wall.h"

/* A task whose function is this one is a walled task. It is not called: sti_walled_run is. */
int sti_walled_fn(void *arg, void **value);

static inline bool sti_task_is_walled(const sti_task *task)
{
    return task->fn == sti_walled_fn;
}

/* For the claimant, a driver: as sti_task_run. */
void sti_walled_run(struct sti_worker *worker, sti_task *task);

/* The task has resolved, and all who followed have been told. By the thread that has told the last; perhaps again. */
void sti_walled_settle(sti_task *task);

#endif
