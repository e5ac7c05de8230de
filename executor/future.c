/* SPDX-License-Identifier: MIT
 *
 * The public functions of futures. Any thread.
 *
 * Inside a task, a wait is a sample point: when it has succeeded, and nothing of ours is held any more, an interrupt
 * that is due is delivered. */
#include <errno.h>
#include <stint/future.h>
#include <stint/interrupt.h>

#include "rest.h"
#include "worker.h"

bool stint_future_ready(const stint_future *future)
{
    return future != NULL && sti_task_is_resolved(future);
}

/* How often a waiter looks before it sleeps: some 5 microseconds in all, about what being woken costs. */
#define WAIT_ROUNDS 20

static bool wait_until_resolved(stint_future *future, uint64_t deadline_ns)
{
    for (unsigned round = 0; round < WAIT_ROUNDS; round++) {
        if (sti_task_is_resolved(future))
            return true;
        sti_rest(round);
    }
    for (;;) {
        uint32_t value = sti_event_value(&future->resolved);
        if (sti_task_is_resolved(future))
            return true;
        if (!sti_event_wait(&future->resolved, value, deadline_ns))
            return sti_task_is_resolved(future);
    }
}

static int finish_wait(const stint_future *future, stint_outcome *outcome)
{
    if (outcome != NULL)
        *outcome = future->outcome;
    stint_checkpoint();
    return 0;
}

int stint_future_wait(stint_future *future, stint_outcome *outcome)
{
    if (future == NULL)
        return EINVAL;
    if (!sti_task_is_resolved(future)) {
        struct sti_worker *worker = sti_worker_of(future->pool);
        if (worker != NULL && sti_worker_is_inside(worker, future))
            return EDEADLK;
        if (worker != NULL && sti_task_claim(future))
            sti_worker_run_awaited(worker, future);
        else
            wait_until_resolved(future, STI_NEVER);
    }
    return finish_wait(future, outcome);
}

int stint_future_wait_for(stint_future *future, uint64_t timeout_ns, stint_outcome *outcome)
{
    if (future == NULL)
        return EINVAL;
    if (!sti_task_is_resolved(future)) {
        const struct sti_worker *worker = sti_worker_of(future->pool);
        if (worker != NULL && sti_worker_is_inside(worker, future))
            return EDEADLK;
        if (timeout_ns == 0 || !wait_until_resolved(future, sti_deadline_after(timeout_ns)))
            return ETIMEDOUT;
    }
    return finish_wait(future, outcome);
}

void stint_future_cancel(stint_future *future)
{
    if (future == NULL || sti_task_is_resolved(future))
        return;
    if (sti_task_claim(future))
        sti_task_end_unstarted(future, STINT_REASON_TOKEN);
    else
        stint_token_set(&future->token);
}

void stint_future_release(stint_future *future)
{
    if (future != NULL)
        sti_task_release(future);
}
