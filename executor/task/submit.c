/* SPDX-License-Identifier: MIT
 *
 * Submission: the public functions, and where a task is put; see submit.h. Any thread. */
#include "submit.h"

#include <errno.h>
#include <stint/pool.h>

#include "alloc/interrupt/hook.h"
#include "alloc/meter/allocate.h"
#include "alloc/platform/clock.h"
#include "alloc/platform/instrumentation.h"
#include "alloc/platform/process.h"
#include "alloc/scope/scope.h"
#include "completions.h"
#include "continuation.h"
#include "executor/base/event.h"
#include "executor/base/hooks.h"
#include "executor/base/state.h"
#include "executor/queue/fair_queue.h"
#include "executor/queue/queue_slots.h"
#include "farewells.h"
#include "task.h"

/* --- Submitting a task: stint_submit, stint_submit_wait. Any thread. --- */

#define TAKEN_BACK (-1) /* from the queue of a pool that has closed */

/* Inlined in the common path, where what is checked twice is checked once. */
static inline __attribute__((always_inline)) int submit_make_task(stint_pool *pool, stint_fn *fn, void *arg,
                                                                  const stint_options *options, sti_task **task,
                                                                  const void *caller)
{
    struct sti_thread *thread = sti_thread_metered;
    stint_options room;
    int error = pool != NULL && fn != NULL ? sti_options_take(&options, &room) : EINVAL;
    if (error != 0)
        return error;
    if (!sti_pool_is_open(pool))
        return ESHUTDOWN;
    if (!sti_record_charge_to(thread, sizeof(sti_task), caller))
        return ENOMEM;
    *task = sti_task_create(sizeof(sti_task), pool, fn, arg, options, thread);
    if (__builtin_expect(*task == NULL, 0))
        return ENOMEM;
    return __builtin_expect((*task)->options.completions == NULL, 1) ? 0 : sti_completions_expect(*task);
}

/* Offer the task. The future is stored before any thread can run the task, which may look at its own future, and
 * release it. */
static inline __attribute__((always_inline)) int submit_offer(stint_pool *pool, struct sti_worker *worker,
                                                              sti_task *task, stint_future **future)
{
    *future = task;
    STI_PROBE2(submit, task, pool);
    int error = sti_admission_put(pool, worker, task);
    if (error == 0)
        sti_above.notify(pool);
    else
        *future = NULL;
    return error;
}

static __attribute__((noinline)) int submit_take_back(sti_task *task, stint_future **future)
{
    if (!sti_task_claim(task))
        return 0;
    *future = NULL;
    if (task->options.completions != NULL)
        sti_completions_expect_no_more(task);
    task->counted = true;
    sti_task_end_unstarted(task, STINT_REASON_SHUTDOWN);
    sti_task_release(task); /* the future's */
    return TAKEN_BACK;
}

/* From outside into the queue: the pool may have closed meanwhile, and the workers may have left before they could see
 * the task (park.h). If nobody has claimed it then, it has never been submitted; its entry stays behind for the thread
 * that empties the queue. A worker needs no such look: it does not leave before its own task has ended; nor does the
 * entries' room, which has closed before the pool. */
static inline __attribute__((always_inline)) int offer_from_outside(stint_pool *pool, sti_task *task,
                                                                    stint_future **future)
{
    if (sti_queue_slots_are_wanted_for_plain(&pool->queue_slots))
        return EAGAIN;
    sti_task_retain_unseen(task);
    int error = submit_offer(pool, NULL, task, future);
    if (__builtin_expect(!sti_pool_is_open(pool), 0) && error == 0)
        error = submit_take_back(task, future);
    if (sti_task_give_back(task))
        sti_task_free(task);
    return error;
}

/* After any error but those of a full slot the task is gone. */
static inline __attribute__((always_inline)) int submit_put(stint_pool *pool, sti_task *task, stint_future **future)
{
    struct sti_worker *worker = sti_worker_of(pool);
    int error = worker == NULL && sti_admission_is_plain(task) ? offer_from_outside(pool, task, future)
                                                               : submit_offer(pool, worker, task, future);
    if (__builtin_expect(error == 0, 1))
        return 0;
    if (!sti_admission_is_full(error) && error != TAKEN_BACK)
        sti_task_discard(task);
    return error;
}

static __attribute__((noinline, cold)) int submit_refuse(int error, stint_future **future)
{
    if (future == NULL)
        return EINVAL;
    *future = NULL;
    return error;
}

int stint_submit(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options, stint_future **future)
{
    if (sti_process_is_partial())
        return submit_refuse(ENOTSUP, future);
    sti_task *task;
    int error = future != NULL ? submit_make_task(pool, fn, arg, options, &task, STI_CALLER()) : EINVAL;
    if (error != 0)
        return submit_refuse(error, future);
    error = submit_put(pool, task, future);
    if (__builtin_expect(sti_admission_is_full(error), 0))
        sti_task_discard(task);
    return error != TAKEN_BACK ? error : ESHUTDOWN;
}

/* --- Submitters that wait for a slot (queue_slots.h). --- */

static int put_submitted(stint_pool *pool, struct sti_slot_waiter *waiter)
{
    *waiter->future = waiter->task; /* before the task can start */
    int error = sti_admission_put(pool, NULL, waiter->task);
    if (error != 0)
        *waiter->future = NULL;
    return error;
}

static bool has_been_answered(const void *waiter)
{
    return atomic_load_explicit(&((const struct sti_slot_waiter *)waiter)->answer, memory_order_acquire) !=
           STI_SLOT_WAITING;
}

/* Also for one that has been answered: the thread that did so may still be about to wake it. */
static int give_up_line(stint_pool *pool, struct sti_slot_waiter *waiter, int error)
{
    sti_queue_slots_leave(pool, waiter);
    int result = atomic_load_explicit(&waiter->answer, memory_order_relaxed);
    return result != STI_SLOT_WAITING ? result : error;
}

/* Wait until the task has a slot, by then *future is set, or until the deadline. 0; ETIMEDOUT; ESHUTDOWN; ENOMEM;
 * EINTR: an interrupt of the calling task has come, which the caller is to deliver; it does not end an uninterruptible
 * wait. Any thread that is no worker of the pool. */
static int await_slot(stint_pool *pool, sti_task *task, uint64_t deadline_ns, bool uninterruptible,
                      stint_future **future)
{
    static const struct sti_slot_kind submitter = { .put = put_submitted };
    struct sti_slot_waiter waiter = { .kind = &submitter, .task = task, .future = future };
    task->was_queued_for_slot = true;
    atomic_init(&waiter.answer, STI_SLOT_WAITING);
    sti_event_init(&waiter.answered);
    int error = sti_queue_slots_stand(pool, &waiter);
    if (error != 0)
        return error;
    error = sti_above.sleep(&waiter.answered, has_been_answered, &waiter, deadline_ns, uninterruptible);
    return give_up_line(pool, &waiter, error);
}

int sti_submit_made(stint_pool *pool, sti_task *task, uint64_t deadline_ns, bool uninterruptible, stint_future **future,
                    bool *settles)
{
    int error = submit_put(pool, task, future);
    *settles = error == TAKEN_BACK;
    if (!sti_admission_is_full(error))
        return error == TAKEN_BACK ? ESHUTDOWN : error;
    if (deadline_ns != 0 && (sti_worker_of(pool) != NULL || sti_continuation_is_running()))
        error = EDEADLK;
    else if (deadline_ns != 0)
        error = await_slot(pool, task, deadline_ns, uninterruptible, future);
    if (error != 0)
        sti_task_discard(task);
    return error;
}

/* An interrupt may not return from where it is delivered: so by then the task is gone. */
static int submit_try(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options, uint64_t begun,
                      uint64_t deadline, bool uninterruptible, const void *caller, stint_future **future)
{
    sti_task *task;
    int error = submit_make_task(pool, fn, arg, options, &task, caller);
    if (error != 0)
        return error;
    bool settles;
    task->submitted_ns = begun;
    return sti_submit_made(pool, task, deadline, uninterruptible, future, &settles);
}

int stint_submit_wait(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options, uint64_t timeout_ns,
                      stint_future **future)
{
    if (sti_process_is_partial())
        return submit_refuse(ENOTSUP, future);
    uint64_t begun = sti_clock_now();
    uint64_t deadline = sti_deadline_after(timeout_ns);
    int error = EINTR;
    if (future == NULL)
        return EINVAL;
    for (bool uninterruptible = false; error == EINTR; uninterruptible = true) {
        error = submit_try(pool, fn, arg, options, begun, deadline, uninterruptible, STI_CALLER(), future);
        if (error == EINTR && sti_waking_deliver())
            error = ECANCELED;
    }
    return error == 0 ? 0 : submit_refuse(error, future);
}

/* --- Which of the slots where tasks wait a new one goes to, and how one is taken out of turn. --- */

/* A task that waits in the fair queue is offered there: a thread that claims it finds it in its list. */
static int put_anywhere(stint_pool *pool, struct sti_worker *worker, sti_task *task)
{
    if (task->fair_queue != NULL)
        return sti_fair_queue_put(task->fair_queue, task);
    return sti_admission_put_plain(pool, worker, task) ? 0 : EAGAIN;
}

void sti_admission_prepare(stint_pool *pool, sti_task *task)
{
    task->fair_queue = sti_admission_is_plain(task) ? NULL : &pool->fair_queue;
    task->monitor = task->options.budget.wall_ns != 0 ? &pool->monitor : NULL;
}

/* The task may have ended when its deadline is told the monitor. */
int sti_admission_put_prepared(stint_pool *pool, struct sti_worker *worker, sti_task *task)
{
    uint64_t deadline;
    if (task->monitor == NULL)
        return put_anywhere(pool, worker, task);
    sti_task_retain(task);
    int error = put_anywhere(pool, worker, task);
    if (error == 0 && !__builtin_add_overflow(task->submitted_ns, task->options.budget.wall_ns, &deadline))
        sti_above.set_timer(&pool->monitor, &task->timer, STI_TIMER_EXPIRY, deadline);
    sti_task_release(task);
    return error;
}

int sti_admission_put_uncommon(stint_pool *pool, struct sti_worker *worker, sti_task *task)
{
    sti_admission_prepare(pool, task);
    return sti_admission_put_prepared(pool, worker, task);
}

bool sti_admission_claim_awaited(sti_task *task, bool beyond)
{
    struct sti_fair_queue *fair_queue = task->fair_queue;
    if (fair_queue == NULL)
        return sti_task_claim(task);
    bool taken = sti_fair_queue_take_awaited(fair_queue, task, beyond);
    if (taken && sti_queue_slots_are_wanted(&fair_queue->pool->queue_slots))
        sti_queue_slots_fill(fair_queue->pool);
    return taken;
}

stint_account *sti_admission_account_of(sti_task *task)
{
    return task->fair_queue != NULL ? sti_fair_queue_account_of(task->fair_queue, task) : NULL;
}

bool sti_admission_claim_to_end(sti_task *task, stint_reason reason)
{
    if (!sti_task_claim_to_end(task, reason))
        return false;
    if (task->fair_queue != NULL) {
        sti_farewell_note(task->fair_queue->pool, task);
        sti_fair_queue_remove(task->fair_queue, task);
        sti_task_release(task);
    }
    return true;
}
