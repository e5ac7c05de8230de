/* SPDX-License-Identifier: MIT
 *
 * Waiting until a future resolves. Any thread. */
#ifndef STI_EXECUTOR_WAIT_H
#define STI_EXECUTOR_WAIT_H

#include "task.h"

/* 0; EDEADLK: it could never end; EOWNERDEAD: it could have, but in the process that this one was forked from. */
int sti_wait(sti_task *task);

/* The same, but no task is run, and not beyond the deadline by sti_clock_now: ETIMEDOUT. */
int sti_wait_until(sti_task *task, uint64_t deadline_ns);

#endif
