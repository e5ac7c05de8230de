/* SPDX-License-Identifier: MIT
 *
 * The public functions of futures: look, wait, cancel, release. Any thread.
 *
 * Inside a task, a wait is a sample point: when it has succeeded, and nothing of ours is held any more, an interrupt
 * that is due is delivered. */
#include <errno.h>
#include <stint/future.h>
#include <stint/interrupt.h>

#include "admission.h"
#include "alloc/scope.h"
#include "alloc/waking.h"
#include "compound.h"
#include "event.h"
#include "pools.h"
#include "wait.h"

bool stint_future_ready(const stint_future *future)
{
    return future != NULL && sti_task_is_resolved(future);
}

/* Until it has resolved or the deadline has passed. An interrupt that comes meanwhile is delivered here, where nothing of
 * ours is held; where it has to wait, the rest of the wait is deaf to it. */
static int wait_until(stint_future *future, uint64_t deadline_ns, bool runs_it)
{
    int error = EINTR;
    for (bool deaf = false; error == EINTR; deaf = true) {
        error = runs_it ? sti_wait(future, deaf) : sti_wait_until(future, deadline_ns, deaf);
        if (error == EINTR && sti_waking_deliver())
            return ECANCELED;
    }
    return error;
}

static int finish_wait(const stint_future *future, int error, stint_outcome *outcome)
{
    if (error != 0)
        return error;
    if (outcome != NULL)
        sti_outcome_copy(outcome, &future->outcome);
    stint_checkpoint();
    return 0;
}

int stint_future_wait(stint_future *future, stint_outcome *outcome)
{
    return future != NULL ? finish_wait(future, wait_until(future, STI_NEVER, true), outcome) : EINVAL;
}

int stint_future_wait_for(stint_future *future, uint64_t timeout_ns, stint_outcome *outcome)
{
    if (future == NULL)
        return EINVAL;
    if (timeout_ns == 0 && !sti_task_is_resolved(future))
        return ETIMEDOUT;
    return finish_wait(future, wait_until(future, sti_deadline_after(timeout_ns), false), outcome);
}

void stint_future_cancel(stint_future *future)
{
    if (future == NULL || sti_task_is_resolved(future) || sti_task_is_left_behind(future))
        return;
    if (sti_task_is_compound(future))
        sti_compound_cancel(future);
    else if (sti_admission_claim_to_end(future, STINT_REASON_TOKEN))
        sti_task_end_unstarted(future, STINT_REASON_TOKEN);
    else
        stint_token_set(&future->token);
}

void stint_future_release(stint_future *future)
{
    if (future != NULL)
        sti_task_release(future);
}
