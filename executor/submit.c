/* SPDX-License-Identifier: MIT
 *
 * Submitting a task: stint_submit, stint_submit_wait. Any thread. */
#include <errno.h>
#include <stint/pool.h>

#include "admission.h"
#include "alloc/clock.h"
#include "alloc/linkage.h"
#include "alloc/scope.h"
#include "alloc/waking.h"
#include "event.h"
#include "follow.h"
#include "pool_state.h"
#include "worker.h"

static int make_task(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options, sti_task **task)
{
    if (pool == NULL || fn == NULL || !sti_options_valid(options))
        return EINVAL;
    if (!sti_link_allows(options != NULL ? options->flags : 0))
        return ENOTSUP;
    if (!sti_pool_is_open(pool))
        return sti_pool_refusal(pool);
    *task = sti_task_create(pool, fn, arg, options);
    return *task != NULL ? 0 : ENOMEM;
}

/* There is no place for it now. */
static bool is_full(int error)
{
    return error == EAGAIN || error == EDQUOT;
}

/* After any error but those of a full place the task is gone. */
static int put(stint_pool *pool, sti_task *task, stint_future **future)
{
    struct sti_worker *worker = sti_worker_of(pool);
    bool plain = sti_admission_is_plain(task);
    if (plain && worker == NULL && sti_places_are_wanted_for_plain(&pool->places))
        return EAGAIN;
    /* Before anybody can run the task: it may look at its own future. */
    *future = task;
    int error = sti_admission_put(pool, worker, task);
    if (error != 0) {
        *future = NULL;
        if (!is_full(error))
            sti_task_discard(task);
        return error;
    }
    sti_park_notify(pool);
    /* Closed meanwhile: the workers may have left before they could see the task (park.h). If nobody has claimed it, it
     * has never been submitted; its entry stays behind for whoever empties the queue. A worker needs no such look: it
     * does not leave before its own task has ended; nor does the tenants' room, which has closed before the pool. */
    if (plain && worker == NULL && !sti_pool_is_open(pool) && sti_task_claim(task)) {
        *future = NULL;
        task->counted = true;
        sti_task_end_unstarted(task, STINT_REASON_SHUTDOWN);
        sti_task_release(task);
        return ESHUTDOWN;
    }
    return 0;
}

int stint_submit(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options, stint_future **future)
{
    sti_task *task;
    if (future == NULL)
        return EINVAL;
    int error = make_task(pool, fn, arg, options, &task);
    if (error != 0)
        return error;
    error = put(pool, task, future);
    if (is_full(error))
        sti_task_discard(task);
    return error;
}

/* An interrupt may not return from where it is delivered: so by then the task is gone. */
static int submit_once(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options, uint64_t begun,
                       uint64_t deadline, bool deaf, stint_future **future)
{
    sti_task *task;
    int error = make_task(pool, fn, arg, options, &task);
    if (error != 0)
        return error;
    task->submitted_ns = begun;
    error = put(pool, task, future);
    if (!is_full(error))
        return error;
    if (sti_worker_of(pool) != NULL || sti_is_following())
        error = EDEADLK;
    else
        error = sti_places_await(pool, task, deadline, deaf, future);
    if (error != 0)
        sti_task_discard(task);
    return error;
}

int stint_submit_wait(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options, uint64_t timeout_ns,
                      stint_future **future)
{
    uint64_t begun = sti_clock_now();
    uint64_t deadline = sti_deadline_after(timeout_ns);
    int error = EINTR;
    if (future == NULL)
        return EINVAL;
    for (bool deaf = false; error == EINTR; deaf = true) {
        error = submit_once(pool, fn, arg, options, begun, deadline, deaf, future);
        if (error == EINTR && sti_waking_deliver())
            return ECANCELED;
    }
    return error;
}
