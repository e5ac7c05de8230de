/* SPDX-License-Identifier: MIT
 *
 * The future that a task's submitter holds: look, wait, cancel, release. Any thread.
 *
 * Inside a task, a wait is a sample point: when it has succeeded, and nothing of ours is held any more, an interrupt
 * that is due is delivered. */
#include <errno.h>
#include <stddef.h>
#include <stint/future.h>
#include <stint/interrupt.h>
#include <stint/token.h>

#include "alloc/interrupt/watch.h"
#include "alloc/observe/report.h"
#include "alloc/platform/clock.h"
#include "alloc/platform/process.h"
#include "alloc/platform/thread.h"
#include "compound.h"
#include "delays.h"
#include "executor/base/event.h"
#include "executor/base/hooks.h"
#include "submit.h"
#include "task.h"

bool stint_future_is_ready(const stint_future *future)
{
    return future != NULL && sti_task_is_resolved(future);
}

static int future_finish_wait(const stint_future *future, int error, stint_outcome *outcome)
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
    if (sti_process_is_partial())
        return ENOTSUP;
    return future != NULL ? future_finish_wait(future, sti_above.wait(future), outcome) : EINVAL;
}

int stint_future_wait_for(stint_future *future, uint64_t timeout_ns, stint_outcome *outcome)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (future == NULL)
        return EINVAL;
    if (timeout_ns == 0 && !sti_task_is_resolved(future))
        return ETIMEDOUT;
    return future_finish_wait(future, sti_above.wait_until(future, sti_deadline_after(timeout_ns)), outcome);
}

void stint_future_cancel(stint_future *future)
{
    if (sti_process_is_partial() || future == NULL || sti_task_is_resolved(future))
        return;
    if (sti_task_is_compound(future))
        sti_compound_cancel(future);
    else if (sti_admission_claim_to_end(future, STINT_REASON_TOKEN))
        sti_task_end_unstarted(future, STINT_REASON_TOKEN);
    else if (!sti_delayed_end(future, STINT_REASON_TOKEN))
        stint_token_set(&future->token);
}

int stint_future_set_budget(stint_future *future, const stint_budget *budget)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (future == NULL || budget == NULL || sti_task_is_compound(future))
        return EINVAL;
    return sti_task_is_resolved(future) ? EALREADY : sti_limits_change(&future->limits, budget);
}

/* As its last sample point left it, and the next one is asked for, for whoever asks again. */
static stint_usage usage_so_far(sti_task *task)
{
    struct sti_limits *limits = &task->limits;
    uint64_t now = sti_clock_now();
    uint64_t start = atomic_load_explicit(&limits->start, memory_order_relaxed);
    uint64_t begun = start != 0 ? start : now;
    bool untimed = (task->options.flags & STINT_UNTIMED) != 0;
    sti_thread_request_samples();
    atomic_fetch_add_explicit(&limits->asked, 1, memory_order_relaxed);
    sti_watch_wake();
    return (stint_usage){
        .allocated = atomic_load_explicit(&limits->allocated, memory_order_relaxed),
        .peak = atomic_load_explicit(&limits->peak, memory_order_relaxed),
        .cpu_ns = atomic_load_explicit(&limits->cpu_used, memory_order_relaxed),
        .wall_ns = now > begun && !untimed ? now - begun : 0,
        .queued_ns = begun > task->submitted_ns && !untimed ? begun - task->submitted_ns : 0,
    };
}

int stint_future_usage(stint_future *future, stint_usage *usage)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (future == NULL || usage == NULL || (sti_task_is_compound(future) && !sti_task_is_resolved(future)))
        return EINVAL;
    *usage = sti_task_is_resolved(future) ? future->outcome.usage : usage_so_far(future);
    return 0;
}

int stint_future_report(stint_future *future, stint_report **report)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (future == NULL || report == NULL)
        return EINVAL;
    if (!sti_task_is_resolved(future))
        return EAGAIN;
    if (future->report == NULL)
        return ENODATA;
    *report = stint_report_retain(future->report);
    return 0;
}

stint_future *stint_future_retain(stint_future *future)
{
    if (future != NULL)
        sti_task_retain(future);
    return future;
}

void stint_future_release(stint_future *future)
{
    if (!sti_process_is_partial() && future != NULL)
        sti_task_release(future);
}
