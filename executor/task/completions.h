/* SPDX-License-Identifier: MIT
 *
 * Completion queues from the inside: for tasks whose options name one. */
#ifndef STI_EXECUTOR_TASK_COMPLETIONS_H
#define STI_EXECUTOR_TASK_COMPLETIONS_H

#include <stint/future.h>

#include "executor/base/state.h"

/* Add a task that nobody else has seen to its options' queue: 0; ENOMEM, and the task is gone. A compound future, if it
 * has one: it stays. And take it back, if it is not to resolve, or as far as anybody knows has never been. Any
 * thread. */
int sti_completions_expect(sti_task *task);
int sti_completions_expect_compound(sti_task *task);
void sti_completions_expect_no_more(sti_task *task);

#endif
