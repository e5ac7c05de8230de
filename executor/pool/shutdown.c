/* SPDX-License-Identifier: MIT
 *
 * Ending a pool; see shutdown.h. Any thread. */
#include "shutdown.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>

#include "alloc/interrupt/hook.h"
#include "alloc/platform/process.h"
#include "alloc/platform/thread.h"
#include "executor/queue/fair_queue.h"
#include "executor/queue/queue_slots.h"
#include "executor/task/continuation.h"
#include "executor/task/delays.h"
#include "executor/task/farewells.h"
#include "executor/task/task.h"
#include "executor/worker/park.h"
#include "executor/worker/substitute.h"
#include "executor/worker/worker.h"
#include "pool.h"

/* --- Ending a pool: stint_pool_shutdown, and its parts for stint_pool_create and stint_pool_destroy. Any thread; which
 * calls may meet is said in stint/pool.h. */

/* For cancelled tasks to end in, however little time draining was given. */
#define MIN_TO_END_NS UINT64_C(1000000000)

void sti_shutdown_begin(stint_pool *pool, enum sti_pool_phase phase)
{
    sti_delays_close(pool);
    /* In this order, and before the phase: the workers see the tasks that were put for waiting submitters (park.h). */
    sti_queue_slots_close(pool);
    sti_fair_queue_close(&pool->fair_queue);
    int before = STI_POOL_OPEN;
    /* seq_cst: park.h says what it is ordered with. */
    while (before < (int)phase && !atomic_compare_exchange_weak_explicit(&pool->phase, &before, (int)phase,
                                                                         memory_order_seq_cst, memory_order_relaxed))
        ;
    sti_park_notify_all(pool);
}

static void task_end_claimed(stint_pool *pool, sti_task *task)
{
    atomic_fetch_add_explicit(&pool->outcomes[STINT_REASON_SHUTDOWN], 1, memory_order_relaxed);
    sti_task_end_unstarted(task, STINT_REASON_SHUTDOWN);
    sti_task_release(task);
}

static void end_entry(stint_pool *pool, sti_task *task)
{
    if (sti_task_claim_to_end(task, STINT_REASON_SHUTDOWN))
        task_end_claimed(pool, task);
    else
        sti_farewell_drop(pool, task);
}

void sti_shutdown_end_queued(stint_pool *pool)
{
    sti_task *task;
    while (!sti_queue_is_empty(&pool->queue)) {
        if ((task = sti_queue_pop(&pool->queue)) != NULL)
            end_entry(pool, task);
        else
            sched_yield(); /* the oldest one's push has not ended */
    }
    unsigned slots = sti_pool_slots(pool);
    for (unsigned i = 0; i < slots; i++) {
        while ((task = sti_deque_steal(&pool->workers[i].deque)) != NULL)
            end_entry(pool, task);
    }
    while ((task = sti_fair_queue_take_any(&pool->fair_queue)) != NULL)
        task_end_claimed(pool, task);
}

static void pool_cancel(stint_pool *pool)
{
    sti_shutdown_begin(pool, STI_POOL_CANCELLING);
    stint_token_set(&pool->stop);
    /* At once, and not when a worker comes to it: workers may be busy for long. */
    sti_shutdown_end_queued(pool);
}

/* --- Waiting for the end ------------------------------------------------------------------------------------------ */

static bool pool_has_ended(const void *pool)
{
    return atomic_load_explicit(&((const stint_pool *)pool)->alive, memory_order_acquire) == 0;
}

/* In a task of another pool the place there is given up meanwhile, and an interrupt ends the wait: ECANCELED, or it
 * does not return. */
static int wait_for_workers(stint_pool *pool, uint64_t deadline_ns)
{
    int error = EINTR;
    for (bool uninterruptible = false; error == EINTR; uninterruptible = true) {
        error = sti_sleep(&pool->ended, pool_has_ended, pool, deadline_ns, uninterruptible);
        if (error == EINTR && sti_waking_deliver())
            return ECANCELED;
    }
    return error;
}

void sti_shutdown_join(stint_pool *pool, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (!pool->workers[i].is_joined)
            pthread_join(pool->workers[i].thread, NULL);
    }
}

bool sti_shutdown_leave_to_free(stint_pool *pool)
{
    /* acq_rel: the thread that waits for 0 sees all that the workers did, and the last worker sees whether a thread
     * waits. */
    if (atomic_fetch_sub_explicit(&pool->alive, 1, memory_order_acq_rel) != 1)
        return false;
    if (atomic_load_explicit(&pool->abandoned, memory_order_relaxed))
        return true;
    sti_event_signal(&pool->ended);
    return false;
}

void sti_shutdown_leave(stint_pool *pool)
{
    if (sti_shutdown_leave_to_free(pool))
        sti_pool_free(pool);
}

bool sti_shutdown_keep(stint_pool *pool)
{
    unsigned alive = atomic_load_explicit(&pool->alive, memory_order_relaxed);
    while (alive != 0 && !atomic_compare_exchange_weak_explicit(&pool->alive, &alive, alive + 1, memory_order_relaxed,
                                                                memory_order_relaxed))
        ;
    return alive != 0;
}

bool sti_shutdown_abandon(stint_pool *pool, unsigned *running)
{
    if (!sti_shutdown_keep(pool)) {
        sti_shutdown_join(pool, sti_pool_slots(pool));
        sti_pool_free(pool);
        return false;
    }
    sti_substitute_begin_no_more(pool);
    unsigned slots = sti_pool_slots(pool);
    for (unsigned i = 0; i < slots; i++) {
        *running += atomic_load_explicit(&pool->workers[i].running, memory_order_relaxed) != NULL;
        if (!pool->workers[i].is_joined)
            pthread_detach(pool->workers[i].thread);
    }
    atomic_store_explicit(&pool->abandoned, true, memory_order_relaxed);
    /* release: the last worker sees that; acquire: or this thread is the last, and sees what they did. */
    if (atomic_fetch_sub_explicit(&pool->alive, 1, memory_order_acq_rel) != 1)
        return true;
    *running = 0;
    sti_pool_free(pool);
    return false;
}

static void join_once(stint_pool *pool)
{
    pthread_mutex_lock(&pool->joining);
    if (!pool->joined)
        sti_shutdown_join(pool, sti_pool_slots(pool));
    pool->joined = true;
    pthread_mutex_unlock(&pool->joining);
}

int stint_pool_shutdown(stint_pool *pool, stint_shutdown how, uint64_t timeout_ns)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (pool == NULL || (unsigned)how > (unsigned)STINT_SHUTDOWN_DRAIN_THEN_CANCEL)
        return EINVAL;
    if (sti_worker_of(pool) != NULL || sti_continuation_is_running())
        return EDEADLK;
    uint64_t deadline = sti_deadline_after(timeout_ns);
    if (how == STINT_SHUTDOWN_CANCEL)
        pool_cancel(pool);
    else
        sti_shutdown_begin(pool, STI_POOL_DRAINING);
    int error = wait_for_workers(pool, deadline);
    if (error == ETIMEDOUT && how == STINT_SHUTDOWN_DRAIN_THEN_CANCEL) {
        pool_cancel(pool);
        error = wait_for_workers(pool, sti_deadline_after(timeout_ns > MIN_TO_END_NS ? timeout_ns : MIN_TO_END_NS));
    }
    if (error == 0)
        join_once(pool);
    return error;
}
