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

/* --- Billing: the time for which a task, or a stolen subtask, occupies a worker, for the entry that it is charged to.
 * By the worker's own thread. */

struct sti_worker;

void sti_bill_begin(struct sti_worker *worker, struct sti_stretch *stretch, struct sti_bill bill);
void sti_bill_end(struct sti_worker *worker);

/* --- Running. By the worker's own thread. --- */

/* Run a claimed task to its outcome. */
void sti_worker_run(struct sti_worker *worker, sti_task *task);

/* Run a stolen subtask. */
void sti_worker_run_stolen(struct sti_worker *worker, struct sti_stolen stolen);

#endif
