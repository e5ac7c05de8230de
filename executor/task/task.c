/* SPDX-License-Identifier: MIT
 *
 * The task, from its submission to its outcome, and the future that its caller holds; see task.h. Any thread. */
#include "task.h"

#include <errno.h>
#include <stddef.h>
#include <stint/account.h>
#include <stint/context.h>
#include <stint/future.h>
#include <stint/interrupt.h>

#include "alloc/base/clock.h"
#include "alloc/base/process.h"
#include "alloc/base/thread.h"
#include "alloc/charge/account.h"
#include "alloc/interrupt/watch.h"
#include "alloc/report/report.h"
#include "alloc/scope/scope.h"
#include "completions.h"
#include "compound.h"
#include "continuation.h"
#include "delays.h"
#include "executor/base/event.h"
#include "executor/pool/monitor.h"
#include "executor/pool/pools.h"
#include "executor/pool/visit.h"
#include "executor/worker/run.h"
#include "submit.h"

/* --- The life of a task. --- */

sti_task *sti_task_create_sized(size_t size, const stint_pool *pool, stint_fn *fn, void *arg,
                                const stint_options *options)
{
    return sti_task_create(size, pool, fn, arg, options, sti_thread_metered);
}

static __attribute__((noinline)) void free_what_it_left(sti_task *task)
{
    stint_report_release(task->report);
    sti_process_free((void *)(uintptr_t)task->outcome.payload);
}

void sti_task_free(sti_task *task)
{
    sti_visit_let_pass();
    if (__builtin_expect(((uintptr_t)task->outcome.payload | (uintptr_t)task->report) != 0, 0))
        free_what_it_left(task);
    sti_process_free(task);
}

void sti_task_retain(sti_task *task)
{
    atomic_fetch_add_explicit(&task->references, 1, memory_order_relaxed);
}

void sti_task_release(sti_task *task)
{
    if (sti_task_is_compound(task))
        sti_compound_release(task);
    else if (sti_task_give_back(task))
        sti_task_free(task);
}

/* Let go of what the options refer to: it is the submitter's again. */
static void let_go(sti_task *task)
{
    /* A later stint_future_cancel still sets the token, but never looks at its parent. */
    sti_token_end(&task->token);
    if (task->options.account != NULL)
        stint_account_release(task->options.account);
    if (task->options.context != NULL)
        stint_context_release(task->options.context);
}

void sti_task_discard(sti_task *task)
{
    if (task->options.completions != NULL)
        sti_completions_expect_no_more(task);
    let_go(task);
    sti_task_free(task);
}

static bool leave_queue(sti_task *task, int state)
{
    int queued = STI_TASK_QUEUED;
    return atomic_compare_exchange_strong_explicit(&task->state, &queued, state, memory_order_acquire,
                                                   memory_order_relaxed);
}

bool sti_task_mark_ending(sti_task *task, stint_reason reason)
{
    return leave_queue(task, STI_TASK_ENDING + (int)reason);
}

static void forget_deadline(sti_task *task)
{
    if (task->monitor != NULL)
        sti_monitor_forget(task->monitor, &task->timer);
}

bool sti_task_claim(sti_task *task)
{
    bool claimed = leave_queue(task, STI_TASK_CLAIMED);
    if (claimed)
        forget_deadline(task);
    return claimed;
}

bool sti_task_claim_to_end(sti_task *task, stint_reason reason)
{
    bool claimed = sti_task_mark_ending(task, reason);
    if (claimed)
        forget_deadline(task);
    return claimed;
}

void sti_task_resolve(sti_task *task)
{
    sti_visit_let_pass();
    let_go(task);
    atomic_store_explicit(&task->state, STI_TASK_RESOLVED, memory_order_release);
    sti_continuation_resolve(task);
}

static __attribute__((noinline)) void fail_unstarted(sti_task *task, int error, struct sti_tally *tally)
{
    task->outcome = sti_outcome_unstarted(STINT_REASON_FAILED, sti_clock_now() - task->submitted_ns);
    task->outcome.error = error;
    sti_counter_add_own(&tally->outcomes[STINT_REASON_FAILED]);
    sti_task_count_labelled(task, STINT_REASON_FAILED);
}

void sti_task_run(sti_task *task, const stint_token *stop, struct sti_tally *tally)
{
    const struct sti_scope_request request = {
        .fn = task->fn,
        .arg = task->arg,
        .options = &task->options,
        .token = &task->token,
        .stop = stop,
        .tally = tally,
        .report = &task->report,
        .limits = &task->limits,
        .submitted_ns = task->submitted_ns,
        .entered = task->entered,
        .detached = true,
    };
    task->counted = true;
    int error = sti_scope_run(&request, &task->outcome);
    if (sti_process_is_partial())
        sti_process_end_thread_of_part();
    if (__builtin_expect(error != 0, 0))
        fail_unstarted(task, error, request.tally);
}

void sti_task_end_unstarted(sti_task *task, stint_reason reason)
{
    if (!task->counted)
        sti_task_count_labelled(task, reason);
    task->outcome = sti_outcome_unstarted(reason, sti_clock_now() - task->submitted_ns);
    sti_task_resolve(task);
}

void sti_task_count_labelled(const sti_task *task, stint_reason reason)
{
    if (task->options.account != NULL)
        sti_account_count(task->options.account, reason, 0);
}

static void count(sti_counter *outcomes, stint_reason reason)
{
    atomic_fetch_add_explicit(&outcomes[reason], 1, memory_order_relaxed);
}

bool sti_task_count_unstarted(sti_task *task, sti_counter *outcomes)
{
    int state = atomic_load_explicit(&task->state, memory_order_acquire);
    bool ended = state == STI_TASK_RESOLVED && !task->counted;
    if (state >= STI_TASK_ENDING)
        count(outcomes, (stint_reason)(state - STI_TASK_ENDING));
    else if (ended)
        count(outcomes, task->outcome.reason);
    return state >= STI_TASK_ENDING || ended;
}

void sti_task_count_ending(sti_task *task, stint_reason reason, sti_counter *outcomes)
{
    count(outcomes, reason);
    sti_task_count_labelled(task, reason);
    task->counted = true;
}

/* --- The public functions of futures: look, wait, cancel, release. Any thread.
 *
 * Inside a task, a wait is a sample point: when it has succeeded, and nothing of ours is held any more, an interrupt
 * that is due is delivered. */

bool stint_future_is_ready(const stint_future *future)
{
    return future != NULL && sti_task_is_resolved(future);
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
    if (sti_process_is_partial())
        return ENOTSUP;
    return future != NULL ? finish_wait(future, sti_wait(future), outcome) : EINVAL;
}

int stint_future_wait_for(stint_future *future, uint64_t timeout_ns, stint_outcome *outcome)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (future == NULL)
        return EINVAL;
    if (timeout_ns == 0 && !sti_task_is_resolved(future))
        return ETIMEDOUT;
    return finish_wait(future, sti_wait_until(future, sti_deadline_after(timeout_ns)), outcome);
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

/* The usage as the last sample point left it; the next sample point is requested, for the next question. */
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
