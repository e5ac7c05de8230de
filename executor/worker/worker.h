/* SPDX-License-Identifier: MIT
 *
 * The worker: a thread of the pool, its deque, and what it is running. */
#ifndef STI_EXECUTOR_WORKER_WORKER_H
#define STI_EXECUTOR_WORKER_WORKER_H

#include <pthread.h>

#include "executor/base/state.h"

/* The body of the thread; its argument is the worker. */
void *sti_worker_main(void *worker);

/* The functions below: by the worker's own thread. */

/* In the child of a fork(2): in part of a process it is no worker. */
void sti_worker_in_child(void);

/* For who steals: the pool's other workers, once each, beginning anywhere. */
struct sti_victims {
    unsigned next;
    unsigned left;
    unsigned slots;
};
struct sti_victims sti_victims_of(struct sti_worker *worker);

/* NULL: all have been. */
struct sti_worker *sti_victims_next(struct sti_victims *victims, const struct sti_worker *worker);

uint32_t sti_worker_random(struct sti_worker *worker);

/* Put an offered task in the deque, or, when that is full, in the submission queue. False: both are full. */
bool sti_worker_put(struct sti_worker *worker, sti_task *task);

/* Whether the task is on this thread's stack: whoever waits for it here waits for itself. */
bool sti_worker_is_inside(const struct sti_worker *worker, const sti_task *task);

/* Run a claimed task whose entry is still in some queue. */
void sti_worker_run_awaited(struct sti_worker *worker, sti_task *task);

#endif
