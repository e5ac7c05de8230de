/* SPDX-License-Identifier: MIT
 *
 * What a visitor sees of the tasks of a pool; the protocol is in visits.h. Any thread. */
#ifndef STI_EXECUTOR_POOL_VISIT_H
#define STI_EXECUTOR_POOL_VISIT_H

#include <stdint.h>
#include <stint/pool.h>

#include "executor/base/state.h"

/* A task as it is shown: a copy, which needs the task no more. */

struct sti_seen {
    stint_task_view view;
    stint_account *account; /* retained: the caller's to release */
    char name[STINT_NAME_SIZE];
};

/* Of a task of the pool's that cannot resolve now. worker: that runs it; NULL: it waits. started: when its function
 * began, if nothing runs on top of it; otherwise 0. */
void sti_seen_take_down(struct sti_seen *seen, const stint_pool *pool, const struct stint_future *task,
                        struct sti_worker *worker, uint64_t started, uint64_t now);

/* Good until the copy is moved. */
const stint_task_view *sti_seen_view(struct sti_seen *seen);

#endif
