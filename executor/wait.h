/* SPDX-License-Identifier: MIT
 *
 * Waiting until a future resolves. Any thread. */
#ifndef STI_EXECUTOR_WAIT_H
#define STI_EXECUTOR_WAIT_H

#include "sleeper.h"
#include "task.h"

/* An interrupt of the calling task that comes meanwhile is delivered, and this may not return: so the caller holds
 * nothing of the library's but under a guard.
 * 0; EDEADLK: it could never end; EOWNERDEAD: it could have, but in the process that this one was forked from; EAGAIN:
 * see rescue.h; ECANCELED: the calling task, in STINT_FAIL, is to stop. */
int sti_wait(sti_task *task);

/* The same, but no task is run, and not beyond the deadline by sti_clock_now: ETIMEDOUT. */
int sti_wait_until(sti_task *task, uint64_t deadline_ns);

/* --- For joins. The sleeper's own thread. --- */

/* How much it could take on. */
void sti_wait_measure_room(struct sti_sleeper *sleeper);

/* What it has been told to run, on top of what is on the stack; or only let go of it. True: the account of the one that a
 * rescue found has its maximum. Then the next sleep is not to be on the list for rescues, which would find the same, and
 * only so long. */
#define STI_RETRY_NS UINT64_C(20000000)
bool sti_wait_run_errands(const struct sti_sleeper *sleeper, bool may_run);

#endif
