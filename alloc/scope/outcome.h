/* SPDX-License-Identifier: MIT
 *
 * The outcome of a task: its status and reason, and what the task says about its error (stint_fail): a copy in the process's
 * memory, which the scope keeps until it ends. Calling thread. */
#ifndef STI_ALLOC_SCOPE_OUTCOME_H
#define STI_ALLOC_SCOPE_OUTCOME_H

#include <stddef.h>
#include <stdint.h>
#include <stint/task.h>
#include <string.h>

struct sti_scope;

/* Status, reason and error of a task that has ended so; its own error, where it failed by itself. */
void sti_outcome_set_unsuccessful(stint_outcome *outcome, stint_reason reason, int own_error);

static inline void sti_outcome_set_reason(stint_outcome *outcome, stint_reason reason, int own_error)
{
    outcome->reason = reason;
    outcome->status = STINT_OK;
    outcome->error = 0;
    if (reason != STINT_REASON_NONE)
        sti_outcome_set_unsuccessful(outcome, reason, own_error);
}

/* The outcome of a task that is stopped for this reason before it starts. */
stint_outcome sti_outcome_unstarted(stint_reason reason, uint64_t queued_ns);

/* The message is worth a copy only where there is one. */
static inline void sti_outcome_copy(stint_outcome *to, const stint_outcome *from)
{
    memcpy(to, from, offsetof(stint_outcome, message));
    to->message[0] = '\0';
    if (__builtin_expect(from->reason == STINT_REASON_EXCEPTION, 0))
        memcpy(to->message, from->message, sizeof to->message);
}

/* The scope, which has one, ends with this outcome: it is the outcome's, or freed. */
void sti_payload_hand_over(struct sti_scope *scope, stint_outcome *outcome);

/* The outcome of a stint_run: in a task the copy becomes the task's memory, so that it goes with that. */
void sti_payload_settle(stint_outcome *outcome);

#endif
