/* SPDX-License-Identifier: MIT
 *
 * Which of the places where tasks wait a new one goes to, and how one is taken out of turn; see admission.h. */
#include "admission.h"

#include <errno.h>

#include "worker.h"

static bool is_plain(const sti_task *task)
{
    return task->options.account == NULL && task->options.priority == STINT_PRIORITY_NORMAL;
}

int sti_admission_put(stint_pool *pool, struct sti_worker *worker, sti_task *task)
{
    bool plain = is_plain(task);
    task->tenants = plain ? NULL : &pool->tenants;
    sti_task_offer(task);
    if (!plain)
        return sti_tenants_put(&pool->tenants, task);
    bool put = worker != NULL ? sti_worker_put(worker, task) : sti_queue_push(&pool->queue, task);
    return put ? 0 : EAGAIN;
}

bool sti_admission_claim_awaited(sti_task *task)
{
    return task->tenants != NULL ? sti_tenants_take_awaited(task->tenants, task) : sti_task_claim(task);
}

bool sti_admission_claim_to_end(sti_task *task, stint_reason reason)
{
    if (!sti_task_claim_to_end(task, reason))
        return false;
    if (task->tenants != NULL) {
        sti_tenants_remove(task->tenants, task);
        sti_task_release(task);
    }
    return true;
}
