/* SPDX-License-Identifier: MIT
 *
 * Running a task, and waiting until a future resolves. Any thread may wait; the rest is the worker's own. */
#ifndef STI_EXECUTOR_WORKER_RUN_H
#define STI_EXECUTOR_WORKER_RUN_H

#include <stdint.h>

#include "executor/base/state.h"

/* --- Waiting until a future resolves. Any thread. --- */

/* An interrupt of the calling task that comes meanwhile is delivered, and this may not return: so the caller holds
 * nothing of the library's but under a guard.
 * 0; EDEADLK: it could never end; EAGAIN: nobody would end it (deadlock.h); ECANCELED: the calling task, in STINT_FAIL,
 * is to stop. */
int sti_wait(sti_task *task);

/* The same, but no task is run, and not beyond the deadline by sti_clock_now: ETIMEDOUT. */
int sti_wait_until(sti_task *task, uint64_t deadline_ns);

/* --- Billing: the processor time that a worker spends on a task, or on a stolen subtask, for the entry that it is
 * charged to. By the worker's own thread. */

struct sti_worker;

/* From begin to end. They nest: what an inner one took is not the outer one's. */
struct sti_stretch {
    uint64_t begin; /* processor time of the thread */
    uint64_t inner; /* what the outer one had of it in inner ones */
    struct sti_bill bill;
};

struct sti_stretch sti_bill_begin(struct sti_worker *worker, struct sti_bill bill);
void sti_bill_end(struct sti_worker *worker, const struct sti_stretch *stretch);

/* --- Running. By the worker's own thread. --- */

/* Run a claimed task to its outcome. */
void sti_worker_run(struct sti_worker *worker, sti_task *task);

/* Run a stolen subtask. */
void sti_worker_run_stolen(struct sti_worker *worker, struct sti_stolen stolen);

#endif
