/* SPDX-License-Identifier: MIT
 *
 * Admission: which of the slots where tasks wait a new one goes to, and how one is taken out of turn. Plain tasks wait
 * in their submitter's deque or in the submission queue, those that have an account or a priority in the fair queue
 * (fair_queue.h). Any thread. */
#ifndef STI_EXECUTOR_TASK_SUBMIT_H
#define STI_EXECUTOR_TASK_SUBMIT_H

#include <errno.h>

#include "alloc/platform/tracing.h"
#include "executor/base/hooks.h"
#include "executor/base/state.h"
#include "executor/queue/queue_slots.h"
#include "task.h"

/* Put a NEW task of the pool where it waits; where there is no slot, wait for one until the deadline (0: do not),
 * uninterruptible or not. As stint_submit_wait, and EINTR: an interrupt has come. After an error the task is gone;
 * settles: it has resolved before, so what follows its end has been told. Any thread. */
int sti_submit_made(stint_pool *pool, sti_task *task, uint64_t deadline_ns, bool uninterruptible, stint_future **future,
                    bool *settles);

/* One that has waited for its slot has been submitted before. */
static inline void sti_admission_trace(sti_task *task)
{
    unsigned epoch = atomic_load_explicit(&sti_trace_epoch, memory_order_relaxed);
    if (epoch != 0 && task->submitter == 0)
        task->submitter = sti_trace_submitter(epoch);
}

/* Offer a new task, to which the caller has a reference, and put it where it is to wait. worker is the calling
 * thread's, if it is one of the pool's. 0; EAGAIN: there is no slot; EDQUOT: none for its account; ESHUTDOWN;
 * ENOMEM. */
static inline bool sti_admission_put_plain(stint_pool *pool, struct sti_worker *worker, sti_task *task)
{
    sti_task_offer(task);
    if (worker == NULL)
        return sti_queue_push(&pool->queue, task);
    return sti_deque_push(&worker->deque, task) || sti_above.put(worker, task);
}

int sti_admission_put_uncommon(stint_pool *pool, struct sti_worker *worker, sti_task *task);
static inline int sti_admission_put(stint_pool *pool, struct sti_worker *worker, sti_task *task)
{
    uint64_t uncommon = (uintptr_t)task->options.account | task->options.budget.wall_ns |
                        (unsigned)task->options.priority | /* STINT_PRIORITY_NORMAL is 0 */
                        atomic_load_explicit(&sti_trace_epoch, memory_order_relaxed);
    if (__builtin_expect(uncommon != 0, 0)) {
        sti_admission_trace(task);
        if (!sti_admission_is_plain(task) || task->options.budget.wall_ns != 0)
            return sti_admission_put_uncommon(pool, worker, task);
    }
    return sti_admission_put_plain(pool, worker, task) ? 0 : EAGAIN;
}

/* The two halves of that, for a task whose future others have already: before they do; and then, as often as it
 * takes. */
void sti_admission_prepare(stint_pool *pool, sti_task *task);
int sti_admission_put_prepared(stint_pool *pool, struct sti_worker *worker, sti_task *task);

/* Claim a task that the calling worker waits for, to run it at once. False: somebody else has it, or it has to wait for
 * its account; not so beyond: it may run over the maximum, as one that has a slot there does not run before it has
 * ended (deadlock.h). */
bool sti_admission_claim_awaited(sti_task *task, bool beyond);

/* The account of a task that waits, retained; NULL: it has none, or waits no more. The task is of the calling worker's
 * pool. */
stint_account *sti_admission_account_of(sti_task *task);

/* Claim a task to end it unstarted for this reason. The caller has a reference of its own. */
bool sti_admission_claim_to_end(sti_task *task, stint_reason reason);

#endif
