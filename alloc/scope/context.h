/* SPDX-License-Identifier: MIT
 *
 * A task seen from the inside: its context, the suspending of its scopes, and the outcome that it leaves. Calling
 * thread only, unless a function says otherwise. */
#ifndef STI_ALLOC_SCOPE_CONTEXT_H
#define STI_ALLOC_SCOPE_CONTEXT_H

#include <stddef.h>
#include <stdint.h>
#include <stint/task.h>
#include <stint/token.h>
#include <string.h>

#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"

/* --- The context of a scope, to start another in it. Thread of the scope. --- */

/* Its own, or that of the scopes around it: a detached scope lies on top of one that has nothing to do with it. NULL:
 * none. */
static inline stint_context *sti_context_of(const struct sti_scope *scope)
{
    while (scope != NULL && scope->request->options->context == NULL)
        scope = scope->outer;
    return scope != NULL ? scope->request->options->context : NULL;
}

/* --- Suspended scopes: for a while the thread is as if in no scope at all. What it allocates comes from the process's
 * heap and is charged to nobody, nothing is a sample point, and scopes that it opens are nobody's inner ones. For the
 * executor, which calls the application's code in a task's midst that is not the task's. Calling thread only. */

struct sti_suspended_scope {
    struct sti_thread *thread; /* NULL: it was in no scope */
    struct sti_scope *scope;
    sti_backend_theap *allocating;
    size_t small;
    struct sti_running running;
};

void sti_scope_suspend(struct sti_suspended_scope *suspended);
void sti_scope_resume(const struct sti_suspended_scope *suspended);

/* --- The outcome of a task: its status and reason, and what the task says about its error (stint_fail): a copy in the
 * process's memory, which the scope keeps until it ends. Calling thread. */

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

/* Whether a scope that the calling thread is in, at any depth, has this account or one below it. */
bool sti_scope_is_in_account(const stint_account *account);

/* memset would be an instruction that takes longer to begin than all of this. */
static inline void sti_outcome_clear_message(stint_outcome *outcome)
{
    typedef long long vector __attribute__((vector_size(16), aligned(1), may_alias));
    vector *part = (vector *)outcome->message;
#pragma GCC unroll 6
    for (size_t i = 0; i < sizeof outcome->message / sizeof *part; i++)
        part[i] = (vector){ 0 };
}

/* The message is worth a copy only where there may be one: of an exception, and of the reasons behind it. Without it
 * there is nothing of a stack's past in it either, which would be a root of some task's heap where the caller keeps
 * it. */
static inline void sti_outcome_copy(stint_outcome *to, const stint_outcome *from)
{
    memcpy(to, from, offsetof(stint_outcome, message));
    sti_outcome_clear_message(to);
    if (__builtin_expect(from->reason >= STINT_REASON_EXCEPTION, 0))
        memcpy(to->message, from->message, sizeof to->message);
}

/* The scope, which has one, ends with this outcome: it is the outcome's, or freed. */
void sti_payload_hand_over(struct sti_scope *scope, stint_outcome *outcome);

/* The outcome of a stint_run: in a task the copy becomes the task's memory, so that it goes with that. */
void sti_payload_settle(stint_outcome *outcome);

#endif
