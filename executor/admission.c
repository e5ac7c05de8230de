/* SPDX-License-Identifier: MIT
 *
 * Which of the places where tasks wait a new one goes to, and how one is taken out of turn; see admission.h. */
#include "admission.h"

#include <errno.h>

#include "worker.h"

static int put_plain(stint_pool *pool, struct sti_worker *worker, sti_task *task)
{
    bool put = worker != NULL ? sti_worker_put(worker, task) : sti_queue_push(&pool->queue, task);
    return put ? 0 : EAGAIN;
}

/* The task may have ended when its deadline is told the monitor. */
static __attribute__((noinline)) int put_monitored(stint_pool *pool, struct sti_worker *worker, sti_task *task)
{
    sti_task_retain_unseen(task);
    int error = task->tenants == NULL ? put_plain(pool, worker, task) : sti_tenants_put(task->tenants, task);
    if (error == 0)
        sti_monitor_await(task);
    sti_task_release(task);
    return error;
}

int sti_admission_put(stint_pool *pool, struct sti_worker *worker, sti_task *task)
{
    bool plain = sti_admission_is_plain(task);
    task->tenants = plain ? NULL : &pool->tenants;
    task->monitor = task->options.budget.wall_ns != 0 ? &pool->monitor : NULL;
    sti_task_offer(task);
    if (task->monitor != NULL)
        return put_monitored(pool, worker, task);
    return plain ? put_plain(pool, worker, task) : sti_tenants_put(&pool->tenants, task);
}

bool sti_admission_claim_awaited(sti_task *task)
{
    struct sti_tenants *tenants = task->tenants;
    if (tenants == NULL)
        return sti_task_claim(task);
    bool taken = sti_tenants_take_awaited(tenants, task);
    if (taken && sti_places_are_wanted(&tenants->pool->places))
        sti_places_fill(tenants->pool);
    return taken;
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
