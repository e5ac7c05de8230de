/* SPDX-License-Identifier: MIT
 *
 * Which of the places where tasks wait a new one goes to, and how one is taken out of turn; see admission.h. */
#include "admission.h"

static int put_plain(stint_pool *pool, struct sti_worker *worker, sti_task *task)
{
    bool put = worker != NULL ? sti_worker_put(worker, task) : sti_queue_push(&pool->queue, task);
    return put ? 0 : EAGAIN;
}

/* Who waits with the tenants is offered there: who claims it finds it in its list. */
static inline int put_anywhere(stint_pool *pool, struct sti_worker *worker, sti_task *task)
{
    if (task->tenants != NULL)
        return sti_tenants_put(task->tenants, task);
    sti_task_offer(task);
    return put_plain(pool, worker, task);
}

/* The task may have ended when its deadline is told the monitor. */
static __attribute__((noinline)) int put_monitored(stint_pool *pool, struct sti_worker *worker, sti_task *task)
{
    sti_task_retain(task);
    int error = put_anywhere(pool, worker, task);
    if (error == 0)
        sti_monitor_await(task);
    sti_task_release(task);
    return error;
}

static inline void prepare(stint_pool *pool, sti_task *task)
{
    task->tenants = sti_admission_is_plain(task) ? NULL : &pool->tenants;
    task->monitor = task->options.budget.wall_ns != 0 ? &pool->monitor : NULL;
}

void sti_admission_prepare(stint_pool *pool, sti_task *task)
{
    prepare(pool, task);
}

int sti_admission_put_prepared(stint_pool *pool, struct sti_worker *worker, sti_task *task)
{
    return task->monitor != NULL ? put_monitored(pool, worker, task) : put_anywhere(pool, worker, task);
}

int sti_admission_put_uncommon(stint_pool *pool, struct sti_worker *worker, sti_task *task)
{
    prepare(pool, task);
    return task->monitor != NULL ? put_monitored(pool, worker, task) : put_anywhere(pool, worker, task);
}

static bool claim_awaited(sti_task *task, bool beyond)
{
    struct sti_tenants *tenants = task->tenants;
    if (tenants == NULL)
        return sti_task_claim(task);
    bool taken = sti_tenants_take_awaited(tenants, task, beyond);
    if (taken && sti_places_are_wanted(&tenants->pool->places))
        sti_places_fill(tenants->pool);
    return taken;
}

bool sti_admission_claim_awaited(sti_task *task)
{
    return claim_awaited(task, false);
}

bool sti_admission_claim_beyond(sti_task *task)
{
    return claim_awaited(task, true);
}

stint_account *sti_admission_account_of(sti_task *task)
{
    return task->tenants != NULL ? sti_tenants_account_of(task->tenants, task) : NULL;
}

bool sti_admission_claim_to_end(sti_task *task, stint_reason reason)
{
    if (!sti_task_claim_to_end(task, reason))
        return false;
    if (task->tenants != NULL) {
        sti_farewell_note(task->tenants->pool, task);
        sti_tenants_remove(task->tenants, task);
        sti_task_release(task);
    }
    return true;
}
