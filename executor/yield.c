/* SPDX-License-Identifier: MIT
 *
 * stint_yield: run another task on top of the calling one. By tasks of a pool, on their workers' threads.
 *
 * What is run here is unrelated to what is below, so it must not be able to want what that has: a lock, a half-changed
 * structure. And the one below waits for it: so it is one at a time, and they do not lie on each other without bound. */
#include <stint/interrupt.h>
#include <stint/pool.h>

#include "alloc/deferral.h"
#include "alloc/thread.h"
#include "alloc/waking.h"
#include "follow.h"
#include "pool_state.h"
#include "worker.h"

#define MOST_YIELDS 8

static bool may_yield(const struct sti_worker *worker)
{
    const struct sti_thread *thread = sti_thread_metered;
    const struct sti_frame *frame = worker != NULL ? sti_worker_frame(worker) : NULL;
    return frame != NULL && !frame->stolen && thread != NULL && !sti_is_following() && worker->asleep == 0 &&
           worker->yields < MOST_YIELDS && sti_deferral_of(thread->scope) == STINT_DEFERRAL_NONE &&
           sti_worker_has_stack(worker, worker->stack_size / 2);
}

static bool run_another(struct sti_worker *worker)
{
    sti_task *task = sti_worker_claim_other(worker);
    if (task == NULL)
        return false;
    bool covered = sti_waking_cover();
    worker->yields++;
    sti_worker_run(worker, task);
    worker->yields--;
    if (covered)
        sti_waking_uncover_scopes();
    sti_task_release(task);
    return true;
}

bool stint_yield(void)
{
    struct sti_worker *worker = sti_worker_current();
    bool ran = may_yield(worker) && run_another(worker);
    stint_checkpoint();
    return ran;
}
