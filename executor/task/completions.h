/* SPDX-License-Identifier: MIT
 *
 * Completion queues from the inside: for tasks whose options name one. */
#ifndef STI_EXECUTOR_TASK_COMPLETIONS_H
#define STI_EXECUTOR_TASK_COMPLETIONS_H

#include <stint/completions.h>

#include "task.h"

/* Add a task that nobody else has seen to its options' queue; and take it back, if it is not to resolve, or as far as
 * anybody knows has never been. 0; ENOMEM. Any thread. */
int sti_completions_expect(sti_task *task);
void sti_completions_expect_no_more(sti_task *task);

#endif
