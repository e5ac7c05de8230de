/* SPDX-License-Identifier: MIT
 *
 * What the records of a task and of a worker do by themselves; see state.h. */
#include "state.h"

#include <string.h>

#include "hooks.h"

/* --- A task leaves its queue, by the thread that claims it; task.h. Any thread. --- */

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
        sti_above.forget_timer(task->monitor, &task->timer);
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

static void outcome_count(sti_counter *outcomes, stint_reason reason)
{
    atomic_fetch_add_explicit(&outcomes[reason], 1, memory_order_relaxed);
}

bool sti_task_count_unstarted(sti_task *task, sti_counter *outcomes)
{
    int state = atomic_load_explicit(&task->state, memory_order_acquire);
    bool ended = state == STI_TASK_RESOLVED && !task->counted;
    if (state >= STI_TASK_ENDING)
        outcome_count(outcomes, (stint_reason)(state - STI_TASK_ENDING));
    else if (ended)
        outcome_count(outcomes, task->outcome.reason);
    return state >= STI_TASK_ENDING || ended;
}

/* --- A worker. --- */

_Thread_local struct sti_worker *sti_worker_own;

void sti_worker_init(struct sti_worker *worker, stint_pool *pool, unsigned index)
{
    sti_deque_init(&worker->deque);
    sti_split_init(&worker->split);
    memset(&worker->wake, 0, sizeof *worker - offsetof(struct sti_worker, wake));
    worker->pool = pool;
    worker->index = index;
    worker->next_victim = index + 1;
    worker->random = index + 1;
}
