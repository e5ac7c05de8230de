/* SPDX-License-Identifier: MIT
 *
 * Neglect: a task that waits while a worker is idle. The pool promises that there is none, beyond the time that it takes to
 * be woken; this measures it, so that it can be tested and watched. */
#ifndef STI_EXECUTOR_NEGLECT_H
#define STI_EXECUTOR_NEGLECT_H

#include "task.h"

struct sti_worker;

/* The worker has run the task, which had waited for long: look whether some worker, this one too, had nothing to do
 * meanwhile. By its own thread. */
void sti_neglect_note(struct sti_worker *worker, const sti_task *task);

#endif
