/* SPDX-License-Identifier: MIT
 *
 * The life of a task; see task.h. */
#include "task.h"

#include <errno.h>
#include <stint/account.h>

#include "alloc/clock.h"
#include "alloc/process.h"
#include "alloc/scope.h"
#include "tsan.h"

sti_task *sti_task_create(const stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options)
{
    static const stint_options no_limits = STINT_OPTIONS_INIT;
    sti_task *task = sti_process_malloc(sizeof *task);
    if (task == NULL)
        return NULL;
    STI_BLOCK_MADE(task);
    atomic_init(&task->state, STI_TASK_NEW);
    atomic_init(&task->references, 2);
    sti_event_init(&task->resolved);
    task->fn = fn;
    task->arg = arg;
    task->pool = pool;
    task->submitted_ns = sti_clock_now();
    task->options = options != NULL ? *options : no_limits;
    sti_token_init(&task->token, task->options.token);
    stint_account_retain(task->options.account);
    return task;
}

static void free_task(sti_task *task)
{
    STI_BLOCK_GIVEN_BACK(task);
    sti_process_free(task);
}

void sti_task_release(sti_task *task)
{
    /* acq_rel: the last one sees all that the other did with the task before it frees it. */
    if (atomic_fetch_sub_explicit(&task->references, 1, memory_order_acq_rel) == 1)
        free_task(task);
}

/* What the options refer to is the submitter's again. */
static void let_go(sti_task *task)
{
    /* A later stint_future_cancel still sets the token, but never looks at its parent. */
    sti_token_end(&task->token);
    stint_account_release(task->options.account);
}

void sti_task_discard(sti_task *task)
{
    let_go(task);
    free_task(task);
}

void sti_task_offer(sti_task *task)
{
    atomic_store_explicit(&task->state, STI_TASK_QUEUED, memory_order_release);
}

bool sti_task_claim(sti_task *task)
{
    int queued = STI_TASK_QUEUED;
    return atomic_compare_exchange_strong_explicit(&task->state, &queued, STI_TASK_CLAIMED, memory_order_acquire,
                                                   memory_order_relaxed);
}

static void resolve(sti_task *task)
{
    let_go(task);
    atomic_store_explicit(&task->state, STI_TASK_RESOLVED, memory_order_release);
    sti_event_signal(&task->resolved);
}

void sti_task_run(sti_task *task, const stint_token *stop)
{
    const struct sti_scope_request request = {
        .fn = task->fn,
        .arg = task->arg,
        .options = &task->options,
        .token = &task->token,
        .stop = stop,
        .submitted_ns = task->submitted_ns,
        .detached = true,
    };
    int error = sti_scope_run(&request, &task->outcome);
    if (error != 0) {
        stint_reason reason = error == EBUSY ? STINT_REASON_ACCOUNT : STINT_REASON_FAILED;
        task->outcome = sti_outcome_unstarted(reason, sti_clock_now() - task->submitted_ns);
        task->outcome.error = error;
    }
    resolve(task);
}

void sti_task_end_unstarted(sti_task *task, stint_reason reason)
{
    task->outcome = sti_outcome_unstarted(reason, sti_clock_now() - task->submitted_ns);
    resolve(task);
}
