/* SPDX-License-Identifier: MIT
 *
 * Submitting a task: stint_submit. Any thread. */
#include <errno.h>
#include <stint/pool.h>

#include "admission.h"
#include "alloc/scope.h"
#include "pool_state.h"
#include "worker.h"

int stint_submit(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options, stint_future **future)
{
    if (pool == NULL || fn == NULL || future == NULL || !sti_options_valid(options))
        return EINVAL;
    if (!sti_pool_is_open(pool))
        return sti_pool_refusal(pool);
    sti_task *task = sti_task_create(pool, fn, arg, options);
    if (task == NULL)
        return ENOMEM;
    /* Before anybody can run the task: it may look at its own future. */
    *future = task;
    struct sti_worker *worker = sti_worker_of(pool);
    int error = sti_admission_put(pool, worker, task);
    if (error != 0) {
        *future = NULL;
        sti_task_discard(task);
        return error;
    }
    sti_park_notify(pool);
    /* Closed meanwhile: the workers may have left before they could see the task (park.h). If nobody has claimed it, it
     * has never been submitted; its entry stays behind for whoever empties the queue. A worker needs no such look: it
     * does not leave before its own task has ended; nor does the tenants' room, which has closed before the pool. */
    if (worker == NULL && !sti_pool_is_open(pool) && task->tenants == NULL && sti_task_claim(task)) {
        *future = NULL;
        task->counted = true;
        sti_task_end_unstarted(task, STINT_REASON_SHUTDOWN);
        sti_task_release(task);
        return ESHUTDOWN;
    }
    return 0;
}
