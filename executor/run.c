/* SPDX-License-Identifier: MIT
 *
 * What a worker does with a task that it has claimed: run it to its outcome, shown to visitors (visit.h), watched for its
 * deadline (overdue.h) and charged to its tenant (bill.h) where that is asked for. By the worker's own thread. */
#include "bill.h"
#include "fork.h"
#include "pool_state.h"
#include "worker.h"

static void execute(struct sti_worker *worker, sti_task *task)
{
    if (worker->split.forks.depth == 0) {
        sti_task_run(task, &worker->pool->stop, &worker->tally);
    } else {
        struct sti_split_below below = sti_split_enter(&worker->split);
        sti_task_run(task, &worker->pool->stop, &worker->tally);
        sti_split_leave(&worker->split, below);
    }
}

static __attribute__((noinline)) void execute_watched(struct sti_worker *worker, sti_task *task)
{
    struct sti_overdue_entry entry;
    sti_overdue_begin_task(&worker->pool->overdue, &entry, worker, task);
    execute(worker, task);
    sti_overdue_end_task(&worker->pool->overdue, &entry);
}

static void run(struct sti_worker *worker, sti_task *task)
{
    struct sti_frame frame;
    sti_worker_enter(worker, &frame, task, false);
    atomic_store_explicit(&task->runner, worker, memory_order_release);
    sti_counter_add_own(&worker->tasks);
    if (__builtin_expect(worker->pool->overdue.after_ns == 0, 1))
        execute(worker, task);
    else
        execute_watched(worker, task);
    sti_worker_leave(worker, &frame);
    sti_task_resolve(task);
}

static __attribute__((noinline)) void run_billed(struct sti_worker *worker, sti_task *task)
{
    struct sti_stretch stretch = sti_bill_begin(worker, task->tenants != NULL ? sti_tenants_bill(task) : worker->bill);
    run(worker, task);
    sti_bill_end(worker, &stretch);
}

/* Plain tasks are charged to nobody while they have the pool to themselves. */
void sti_worker_run(struct sti_worker *worker, sti_task *task)
{
    if (__builtin_expect(task->tenants != NULL || worker->bill.tenant != NULL, 0)) {
        run_billed(worker, task);
        return;
    }
    worker->clock = 0;
    run(worker, task);
}

/* Forks that were stolen are their task's account's. */
void sti_worker_run_stolen(struct sti_worker *worker, struct sti_stolen stolen)
{
    struct sti_tenants *tenants = &worker->pool->tenants;
    const stint_options *options = sti_fork_options(stolen);
    struct sti_bill bill = { .tenant = NULL };
    worker->clock = 0;
    if (sti_tenants_are_ready(tenants))
        bill = sti_tenants_bill_fork(tenants, options->account, options->priority);
    if (bill.tenant == NULL) {
        sti_fork_run(worker, stolen);
        return;
    }
    struct sti_stretch stretch = sti_bill_begin(worker, bill);
    sti_fork_run(worker, stolen);
    sti_bill_end(worker, &stretch);
}
