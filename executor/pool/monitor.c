/* SPDX-License-Identifier: MIT
 *
 * The pool's part of the watch's work: what has expired, and what follows that; see monitor.h. */
#include "monitor.h"

#include <sched.h>
#include <stddef.h>
#include <string.h>

#include "alloc/interrupt/watch.h"
#include "alloc/platform/clock.h"
#include "alloc/platform/module.h"
#include "alloc/platform/thread.h"
#include "executor/base/event.h"
#include "executor/queue/fair_queue.h"
#include "executor/task/continuation.h"
#include "executor/task/delays.h"
#include "executor/task/task.h"
#include "overdue.h"

/* --- What happens. ------------------------------------------------------------------------------------------------ */

static sti_task *task_of(struct sti_timer *timer)
{
    return (sti_task *)((char *)timer - offsetof(sti_task, timer));
}

void sti_monitor_put_off(struct sti_monitor *monitor, struct sti_timer *timer, uint64_t time)
{
    if (time != UINT64_MAX)
        sti_timers_add(&monitor->timers, timer, time);
}

/* The task is retained before it is claimed: then its entry may go at any moment. One that has more time by now, and
 * has not been claimed, waits on. */
static bool claim_expired(struct sti_timer *timer)
{
    sti_task *task = task_of(timer);
    uint64_t deadline = sti_overdue_deadline(task, 0);
    if (deadline > sti_clock_now()) {
        if (sti_task_is_queued(task))
            sti_monitor_put_off(task->monitor, timer, deadline);
        return false;
    }
    sti_task_retain(task);
    bool claimed = sti_task_mark_ending(task, STINT_REASON_EXPIRED);
    if (!claimed)
        sti_task_release(task);
    return claimed;
}

static void end_expired(struct sti_timer *timer)
{
    sti_task *task = task_of(timer);
    if (task->fair_queue != NULL) {
        sti_fair_queue_remove(task->fair_queue, task);
        sti_task_release(task);
    }
    sti_task_end_unstarted(task, STINT_REASON_EXPIRED);
    sti_task_release(task);
}

static bool claim_delayed(struct sti_timer *timer)
{
    return sti_delayed_claim(task_of(timer));
}

static void start_delayed(struct sti_timer *timer)
{
    sti_delayed_start_claimed(task_of(timer));
}

static const struct {
    int state;                              /* that its task has to be in for that; -1: it has none */
    bool (*claim)(struct sti_timer *timer); /* under the lock; false: that is all */
    void (*act)(struct sti_timer *timer);
} kinds[] = {
    [STI_TIMER_EXPIRY] = { STI_TASK_QUEUED, claim_expired, end_expired },
    [STI_TIMER_START] = { STI_TASK_DELAYED, claim_delayed, start_delayed },
    [STI_TIMER_OVERDUE] = { -1, sti_overdue_deal_with, NULL },
};

/* --- What follows. ------------------------------------------------------------------------------------------------ */

/* False: that was all, and nothing will be handed over any more. */
static bool monitor_run_turns(struct sti_monitor *monitor)
{
    uint32_t value = sti_event_value(&monitor->handed);
    sti_real_mutex_lock(&monitor->lock);
    struct sti_queued_turn *turns = monitor->turns;
    bool ending = monitor->ending;
    monitor->turns = NULL;
    sti_real_mutex_unlock(&monitor->lock);
    if (turns != NULL)
        sti_continuation_run(turns);
    else if (!ending)
        sti_event_wait(&monitor->handed, value, STI_NEVER);
    return turns != NULL || !ending;
}

/* The thread inherits the signal mask of the watch's, which blocks all: signals are for the application's threads. */
static void *monitor_main(void *monitor)
{
    pthread_setname_np(pthread_self(), "stint-expired");
    while (monitor_run_turns(monitor))
        ;
    return NULL;
}

static void monitor_append(struct sti_monitor *monitor, struct sti_queued_turn *turns)
{
    *(monitor->turns != NULL ? &monitor->turns_end->next : &monitor->turns) = turns;
    while (turns->next != NULL)
        turns = turns->next;
    monitor->turns_end = turns;
}

/* Where no thread can be started it is run here. */
static void monitor_hand_over(struct sti_monitor *monitor, struct sti_queued_turn *turns)
{
    if (turns == NULL)
        return;
    sti_real_mutex_lock(&monitor->lock);
    bool handed = monitor->has_thread || sti_thread_start(&monitor->thread, NULL, monitor_main, monitor) == 0;
    monitor->has_thread = handed;
    if (handed)
        monitor_append(monitor, turns);
    sti_real_mutex_unlock(&monitor->lock);
    if (handed)
        sti_event_signal(&monitor->handed);
    else
        sti_continuation_run(turns);
}

/* --- The watch's thread ------------------------------------------------------------------------------------------- */

/* As many at a time, so that the deadlines of others are kept in between. */
#define BATCH 256

static struct sti_timer *claim_next(struct sti_monitor *monitor)
{
    sti_real_mutex_lock(&monitor->lock);
    struct sti_timer *timer;
    do
        timer = sti_timers_take(&monitor->timers);
    while (timer != NULL && !kinds[timer->kind].claim(timer));
    sti_real_mutex_unlock(&monitor->lock);
    return timer;
}

/* Resolve expired tasks. Their continuations run elsewhere: this thread has other deadlines to keep. */
static void monitor_act(void *argument)
{
    struct sti_monitor *monitor = argument;
    struct sti_timer *timer;
    sti_continuation_hold();
    for (unsigned i = 0; i < BATCH && (timer = claim_next(monitor)) != NULL; i++)
        kinds[timer->kind].act(timer);
    monitor_hand_over(monitor, sti_continuation_let_go());
}

static uint64_t look_at_timers(struct sti_watch *watch, uint64_t now)
{
    struct sti_monitor *monitor = (struct sti_monitor *)((char *)watch - offsetof(struct sti_monitor, watch));
    sti_real_mutex_lock(&monitor->lock);
    sti_timers_expire(&monitor->timers, now);
    bool any = monitor->timers.expired != NULL;
    uint64_t next = sti_timers_next(&monitor->timers);
    sti_real_mutex_unlock(&monitor->lock);
    if (!any)
        return next != STI_TIMERS_NONE ? next : STI_WATCH_NEVER;
    sti_watch_call(watch, monitor_act, monitor);
    return STI_WATCH_AGAIN;
}

/* --- Others ------------------------------------------------------------------------------------------------------- */

int sti_monitor_begin(struct sti_monitor *monitor)
{
    bool watched = false;
    if (atomic_load_explicit(&monitor->watched, memory_order_relaxed) ||
        !atomic_compare_exchange_strong_explicit(&monitor->watched, &watched, true, memory_order_relaxed,
                                                 memory_order_relaxed))
        return 0;
    /* At once: what others have put in meanwhile is looked at too. */
    int error = sti_watch_begin(&monitor->watch, 0);
    if (error != 0)
        atomic_store_explicit(&monitor->watched, false, memory_order_relaxed);
    return error;
}

static bool timer_is_wanted(struct sti_timer *timer, enum sti_timer_kind kind)
{
    return kinds[kind].state < 0 ||
           atomic_load_explicit(&task_of(timer)->state, memory_order_relaxed) == kinds[kind].state;
}

void sti_monitor_set(struct sti_monitor *monitor, struct sti_timer *timer, enum sti_timer_kind kind, uint64_t time)
{
    uint64_t look = STI_TIMERS_NONE;
    sti_real_mutex_lock(&monitor->lock);
    if (timer_is_wanted(timer, kind)) {
        timer->kind = (unsigned char)kind;
        look = sti_timers_add(&monitor->timers, timer, time);
    }
    sti_real_mutex_unlock(&monitor->lock);
    sti_monitor_begin(monitor);
    if (look != STI_TIMERS_NONE)
        sti_watch_hasten(look);
}

void sti_monitor_forget(struct sti_monitor *monitor, struct sti_timer *timer)
{
    sti_real_mutex_lock(&monitor->lock);
    sti_timers_remove(&monitor->timers, timer);
    sti_real_mutex_unlock(&monitor->lock);
}

void sti_monitor_init(struct sti_monitor *monitor)
{
    monitor->watch = (struct sti_watch){ .look = look_at_timers };
    sti_mutex_init_brief(&monitor->lock);
    sti_timers_init(&monitor->timers, sti_clock_now());
}

void sti_monitor_stop(struct sti_monitor *monitor)
{
    sti_watch_end(&monitor->watch);
}

void sti_monitor_end(struct sti_monitor *monitor)
{
    sti_real_mutex_lock(&monitor->lock);
    while (monitor->timers.count > 0) {
        sti_real_mutex_unlock(&monitor->lock);
        sched_yield();
        sti_real_mutex_lock(&monitor->lock);
    }
    monitor->ending = true;
    sti_real_mutex_unlock(&monitor->lock);
    sti_event_signal(&monitor->handed);
    if (monitor->has_thread)
        pthread_join(monitor->thread, NULL);
    pthread_mutex_destroy(&monitor->lock);
}
