/* SPDX-License-Identifier: MIT
 *
 * Submitting a task: stint_submit. Any thread. */
#include <errno.h>
#include <stint/pool.h>

#include "alloc/scope.h"
#include "pool_state.h"
#include "worker.h"

int stint_submit(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options, stint_future **future)
{
    if (pool == NULL || fn == NULL || future == NULL || !sti_options_valid(options))
        return EINVAL;
    if (!sti_pool_is_open(pool))
        return ESHUTDOWN;
    sti_task *task = sti_task_create(pool, fn, arg, options);
    if (task == NULL)
        return ENOMEM;
    /* Before anybody can run the task: it may look at its own future. */
    *future = task;
    sti_task_offer(task);
    struct sti_worker *worker = sti_worker_of(pool);
    bool queued = worker != NULL ? sti_worker_put(worker, task) : sti_queue_push(&pool->queue, task);
    if (!queued) {
        *future = NULL;
        sti_task_discard(task);
        return EAGAIN;
    }
    sti_park_notify(pool);
    /* Closed meanwhile: the workers may have left before they could see the task (park.h). If nobody has claimed it, it
     * has never been submitted; its entry stays behind for whoever empties the queue. A worker needs no such look: it
     * does not leave before its own task has ended. */
    if (worker == NULL && !sti_pool_is_open(pool) && sti_task_claim(task)) {
        *future = NULL;
        sti_task_end_unstarted(task, STINT_REASON_SHUTDOWN);
        sti_task_release(task);
        return ESHUTDOWN;
    }
    return 0;
}
