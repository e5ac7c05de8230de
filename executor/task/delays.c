/* SPDX-License-Identifier: MIT
 *
 * Tasks that wait for something else than a worker; see delays.h. */
#include "delays.h"

#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>

#include "alloc/platform/module.h"
#include "alloc/scope/scope.h"
#include "completions.h"
#include "continuation.h"
#include "executor/base/hooks.h"
#include "executor/base/state.h"
#include "farewells.h"
#include "submit.h"

static bool delayed_change(sti_task *task, int from, int to)
{
    return atomic_compare_exchange_strong_explicit(&task->state, &from, to, memory_order_acquire, memory_order_relaxed);
}

static struct sti_delayed *delayed_of(struct sti_slot_waiter *waiter)
{
    return (struct sti_delayed *)((char *)waiter - offsetof(struct sti_delayed, waiter));
}

/* The last thing that is done with the pool. */
static void delayed_leave_list(struct sti_delayed *delayed)
{
    struct sti_delays *delays = &delayed->home->delays;
    sti_real_mutex_lock(&delays->lock);
    *delayed->link = delayed->next;
    if (delayed->next != NULL)
        delayed->next->link = delayed->link;
    sti_real_mutex_unlock(&delays->lock);
}

/* --- Ending ------------------------------------------------------------------------------------------------------- */

/* The caller has claimed it, and is to resolve and release it. */
static void delayed_end_claimed(struct sti_delayed *delayed, stint_reason reason, int error)
{
    sti_task *task = &delayed->task;
    stint_pool *pool = delayed->home;
    if (delayed->start_ns != 0)
        sti_above.forget_timer(&pool->monitor, &task->timer);
    sti_queue_slots_leave(pool, &delayed->waiter);
    if (delayed->forget != NULL)
        delayed->forget(delayed);
    sti_task_count_ending(task, reason, pool->outcomes);
    sti_farewell_note(pool, task);
    delayed_leave_list(delayed); /* the pool may be gone */
    task->outcome = sti_outcome_unstarted(reason, 0);
    if (error != 0)
        task->outcome.error = error;
}

static bool claim_to_end(sti_task *task, stint_reason reason)
{
    int ending = STI_TASK_ENDING + (int)reason;
    return delayed_change(task, STI_TASK_DELAYED, ending) || delayed_change(task, STI_TASK_DUE, ending);
}

bool sti_delayed_end(sti_task *task, stint_reason reason)
{
    bool claimed = claim_to_end(task, reason);
    if (claimed) {
        delayed_end_claimed((struct sti_delayed *)task, reason, 0);
        sti_task_resolve(task);
        sti_task_release(task);
    }
    return claimed;
}

/* --- Starting ----------------------------------------------------------------------------------------------------- */

static void delayed_offer(struct sti_slot_waiter *waiter)
{
    atomic_store_explicit(&waiter->task->state, STI_TASK_DUE, memory_order_release);
}

/* The task has got no slot. A plain task has been offered all the same: another thread may have claimed it, and then it
 * needs no slot any more. */
static bool take_offer_back(stint_pool *pool, sti_task *task)
{
    if (task->fair_queue != NULL)
        delayed_offer(&((struct sti_delayed *)task)->waiter);
    if (task->fair_queue != NULL || delayed_change(task, STI_TASK_QUEUED, STI_TASK_DUE))
        return true;
    sti_farewell_drop(pool, task); /* as the thread that takes out its entry would */
    return false;
}

/* The reference is for the answer. */
static bool take_to_answer(struct sti_slot_waiter *waiter)
{
    bool claimed = delayed_change(waiter->task, STI_TASK_DUE, STI_TASK_NEW);
    if (claimed)
        sti_task_retain(waiter->task);
    return claimed;
}

static int slot_waiter_put(stint_pool *pool, struct sti_slot_waiter *waiter)
{
    sti_task *task = waiter->task;
    if (!take_to_answer(waiter))
        return ECANCELED;
    int error = sti_admission_put_prepared(pool, sti_worker_of(pool), task);
    if (!sti_admission_is_full(error) || !take_offer_back(pool, task))
        return sti_admission_is_full(error) ? 0 : error;
    sti_task_release(task);
    return error;
}

static void delayed_answer(struct sti_slot_waiter *waiter, int error)
{
    struct sti_delayed *delayed = delayed_of(waiter);
    sti_task *task = waiter->task;
    if (error == 0) {
        sti_above.stir(delayed->home, task); /* those who sleep may all wait for this one */
        delayed_leave_list(delayed);
    } else {
        bool no_memory = error == ENOMEM;
        delayed_end_claimed(delayed, no_memory ? STINT_REASON_FAILED : STINT_REASON_SHUTDOWN, no_memory ? ENOMEM : 0);
        sti_task_resolve_queued(task);
        sti_task_release(task); /* the entry's reference */
    }
    sti_task_release(task);
}

/* One after the other, also where there are slots: so none overtakes another. */
void sti_delayed_start_claimed(sti_task *task)
{
    struct sti_delayed *delayed = (struct sti_delayed *)task;
    struct sti_queue_slots *queue_slots = &delayed->home->queue_slots;
    if (delayed->start_ns == 0)
        task->submitted_ns = sti_clock_now();
    else if (delayed->start_ns > task->submitted_ns)
        task->submitted_ns = delayed->start_ns;
    sti_task_retain(task);
    sti_queue_slots_keep(queue_slots, 1);
    int error = sti_queue_slots_stand(delayed->home, &delayed->waiter);
    if (error == 0 && sti_task_is_due(task))
        sti_above.stir(delayed->home, task); /* those who sleep may all wait for it, and nobody make a slot */
    sti_queue_slots_keep(queue_slots, -1);
    if (error == 0)
        sti_task_release(task);
    else
        delayed_answer(&delayed->waiter, error); /* it is still claimed */
}

bool sti_delayed_claim(sti_task *task)
{
    return delayed_change(task, STI_TASK_DELAYED, STI_TASK_NEW);
}

void sti_delayed_start(struct sti_delayed *delayed)
{
    if (sti_delayed_claim(&delayed->task))
        sti_delayed_start_claimed(&delayed->task);
}

/* --- Making and ending -------------------------------------------------------------------------------------------- */

static const struct sti_slot_kind due = {
    .due = true, .stands = delayed_offer, .put = slot_waiter_put, .refuse = take_to_answer, .answer = delayed_answer
};

int sti_delayed_create(stint_pool *pool, size_t size, stint_fn *fn, void *arg, const stint_options *options,
                       struct sti_delayed **delayed)
{
    stint_options room;
    int error = pool != NULL && fn != NULL ? sti_options_take(&options, &room) : EINVAL;
    if (error != 0)
        return error;
    if (!sti_pool_is_open(pool))
        return ESHUTDOWN;
    sti_task *task = sti_task_create_sized(size, pool, fn, arg, options);
    if (task == NULL)
        return ENOMEM;
    memset(task + 1, 0, size - sizeof *task);
    sti_admission_prepare(pool, task);
    if (task->options.completions != NULL && (error = sti_completions_expect(task)) != 0)
        return error;
    *delayed = (struct sti_delayed *)task;
    (*delayed)->home = pool;
    (*delayed)->waiter = (struct sti_slot_waiter){ .kind = &due, .task = task };
    return 0;
}

int sti_delayed_begin(struct sti_delayed *delayed)
{
    struct sti_delays *delays = &delayed->home->delays;
    struct sti_monitor *monitor = &delayed->home->monitor;
    uint64_t start_ns = delayed->start_ns;
    int error = start_ns != 0 ? sti_above.begin_monitor(monitor) : 0;
    sti_task_retain_unseen(&delayed->task); /* for what is done here */
    if (error == 0) {
        sti_real_mutex_lock(&delays->lock);
        error = delays->closed ? ESHUTDOWN : 0;
        if (error == 0) {
            delayed->next = delays->all;
            delayed->link = &delays->all;
            if (delayed->next != NULL)
                delayed->next->link = &delayed->next;
            delays->all = delayed;
            atomic_store_explicit(&delayed->task.state, STI_TASK_DELAYED, memory_order_release);
        }
        sti_real_mutex_unlock(&delays->lock);
    }
    if (error != 0) {
        sti_task_discard(&delayed->task);
        return error;
    }
    if (start_ns != 0)
        sti_above.set_timer(monitor, &delayed->task.timer, STI_TIMER_START, start_ns);
    sti_task_release(&delayed->task);
    return 0;
}

void sti_delays_init(struct sti_delays *delays)
{
    pthread_mutex_init(&delays->lock, NULL);
}

void sti_delays_close(stint_pool *pool)
{
    struct sti_delays *delays = &pool->delays;
    struct sti_delayed *claimed = NULL;
    sti_real_mutex_lock(&delays->lock);
    delays->closed = true;
    for (struct sti_delayed *delayed = delays->all; delayed != NULL; delayed = delayed->next) {
        if (claim_to_end(&delayed->task, STINT_REASON_SHUTDOWN)) {
            delayed->next_claimed = claimed;
            claimed = delayed;
        }
    }
    sti_real_mutex_unlock(&delays->lock);
    while (claimed != NULL) {
        struct sti_delayed *next = claimed->next_claimed;
        delayed_end_claimed(claimed, STINT_REASON_SHUTDOWN, 0);
        sti_task_resolve(&claimed->task);
        sti_task_release(&claimed->task);
        claimed = next;
    }
}

void sti_delays_await(struct sti_delays *delays)
{
    sti_real_mutex_lock(&delays->lock);
    while (delays->all != NULL) {
        sti_real_mutex_unlock(&delays->lock);
        sched_yield();
        sti_real_mutex_lock(&delays->lock);
    }
    sti_real_mutex_unlock(&delays->lock);
    pthread_mutex_destroy(&delays->lock);
}
