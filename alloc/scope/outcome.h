/* SPDX-License-Identifier: MIT
 *
 * What a task says about its error (stint_fail): a copy in the process's memory, which the scope keeps until it ends.
 * Calling thread. */
#ifndef STI_ALLOC_SCOPE_OUTCOME_H
#define STI_ALLOC_SCOPE_OUTCOME_H

#include <stint/task.h>

struct sti_scope;

/* The scope, which has one, ends with this outcome: it is the outcome's, or freed. */
void sti_payload_hand_over(struct sti_scope *scope, stint_outcome *outcome);

/* The outcome of a stint_run: in a task the copy becomes the task's memory, so that it goes with that. */
void sti_payload_settle(stint_outcome *outcome);

#endif
