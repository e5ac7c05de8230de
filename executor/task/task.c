/* SPDX-License-Identifier: MIT
 *
 * The task, from its submission to its outcome, and the future that its caller holds; see task.h. Any thread. */
#include "task.h"

#include <errno.h>
#include <stddef.h>
#include <stint/account.h>
#include <stint/future.h>
#include <stint/interrupt.h>
#include <stint/token.h>

#include "alloc/meter/account.h"
#include "alloc/platform/clock.h"
#include "alloc/platform/process.h"
#include "alloc/platform/thread.h"
#include "alloc/scope/scope.h"
#include "continuation.h"
#include "executor/base/hooks.h"
#include "executor/base/visits.h"

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
        sti_above.release_compound(task);
    else if (sti_task_give_back(task))
        sti_task_free(task);
}

/* Let go of what the options refer to: it is the submitter's again. */
static void task_let_go(sti_task *task)
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
        sti_above.expect_no_completion(task);
    task_let_go(task);
    sti_task_free(task);
}

void sti_task_resolve(sti_task *task)
{
    sti_visit_let_pass();
    task_let_go(task);
    atomic_store_explicit(&task->state, STI_TASK_RESOLVED, memory_order_release);
    sti_continuation_resolve(task);
}

static __attribute__((noinline)) void task_fail_unstarted(sti_task *task, int error, struct sti_tally *tally)
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
        task_fail_unstarted(task, error, request.tally);
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

void sti_task_count_ending(sti_task *task, stint_reason reason, sti_counter *outcomes)
{
    atomic_fetch_add_explicit(&outcomes[reason], 1, memory_order_relaxed);
    sti_task_count_labelled(task, reason);
    task->counted = true;
}
