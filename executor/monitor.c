/* SPDX-License-Identifier: MIT
 *
 * Deadlines of waiting tasks; see monitor.h. */
#include "monitor.h"

#include <sched.h>
#include <stddef.h>

#include "alloc/clock.h"
#include "alloc/plain_lock.h"
#include "follow.h"
#include "tenants.h"

static sti_task *task_of(struct sti_timer *timer)
{
    return (sti_task *)((char *)timer - offsetof(sti_task, timer));
}

/* --- The watch's thread ------------------------------------------------------------------------------------------- */

/* Of what has expired, what nobody else had claimed; it is retained. */
static struct sti_timer *claim_expired(struct sti_timer *expired)
{
    struct sti_timer *claimed = NULL;
    while (expired != NULL) {
        struct sti_timer *timer = expired;
        expired = timer->next;
        sti_task *task = task_of(timer);
        sti_task_retain(task); /* before it is claimed: then its entry may go at any moment */
        if (sti_task_mark_ending(task, STINT_REASON_EXPIRED)) {
            timer->next = claimed;
            claimed = timer;
        } else {
            sti_task_release(task);
        }
    }
    return claimed;
}

struct ending {
    struct sti_monitor *monitor;
    struct sti_timer *claimed;
};

/* What follows runs elsewhere: this thread has other deadlines to keep. */
static void end_expired(void *argument)
{
    const struct ending *ending = argument;
    sti_follow_hold();
    for (struct sti_timer *timer = ending->claimed; timer != NULL;) {
        sti_task *task = task_of(timer);
        timer = timer->next;
        if (task->tenants != NULL) {
            sti_tenants_remove(task->tenants, task);
            sti_task_release(task);
        }
        sti_task_end_unstarted(task, STINT_REASON_EXPIRED);
        sti_task_release(task);
    }
    sti_expired_hand_over(&ending->monitor->expired, sti_follow_let_go());
}

static uint64_t look_at_timers(struct sti_watch *watch, uint64_t now)
{
    struct sti_monitor *monitor = (struct sti_monitor *)((char *)watch - offsetof(struct sti_monitor, watch));
    sti_plain_mutex_lock(&monitor->lock);
    struct sti_timer *claimed = claim_expired(sti_timers_expire(&monitor->timers, now));
    uint64_t next = sti_timers_next(&monitor->timers);
    sti_plain_mutex_unlock(&monitor->lock);
    if (claimed == NULL)
        return next != STI_TIMERS_NONE ? next : STI_WATCH_NEVER;
    struct ending ending = { .monitor = monitor, .claimed = claimed };
    sti_watch_call(watch, end_expired, &ending);
    return STI_WATCH_AGAIN;
}

/* --- Others ------------------------------------------------------------------------------------------------------- */

/* Where no thread can be started, a task whose deadline passes resolves when a worker comes to it. */
static void have_watch(struct sti_monitor *monitor)
{
    bool watched = false;
    if (atomic_load_explicit(&monitor->watched, memory_order_relaxed) ||
        !atomic_compare_exchange_strong_explicit(&monitor->watched, &watched, true, memory_order_relaxed,
                                                 memory_order_relaxed))
        return;
    /* At once: what others have put in meanwhile is looked at too. */
    if (sti_watch_begin(&monitor->watch, 0) != 0)
        atomic_store_explicit(&monitor->watched, false, memory_order_relaxed);
}

void sti_monitor_await(sti_task *task)
{
    struct sti_monitor *monitor = task->monitor;
    uint64_t deadline;
    if (__builtin_add_overflow(task->submitted_ns, task->options.budget.wall_ns, &deadline))
        return;
    uint64_t look = STI_TIMERS_NONE;
    sti_plain_mutex_lock(&monitor->lock);
    if (sti_task_is_queued(task))
        look = sti_timers_add(&monitor->timers, &task->timer, deadline);
    sti_plain_mutex_unlock(&monitor->lock);
    have_watch(monitor);
    if (look != STI_TIMERS_NONE)
        sti_watch_hasten(look);
}

void sti_monitor_forget(sti_task *task)
{
    struct sti_monitor *monitor = task->monitor;
    sti_plain_mutex_lock(&monitor->lock);
    sti_timers_remove(&monitor->timers, &task->timer);
    sti_plain_mutex_unlock(&monitor->lock);
}

void sti_monitor_init(struct sti_monitor *monitor)
{
    monitor->watch = (struct sti_watch){ .look = look_at_timers, .only_time = true };
    atomic_init(&monitor->watched, false);
    pthread_mutexattr_t adaptive;
    pthread_mutexattr_init(&adaptive);
    pthread_mutexattr_settype(&adaptive, PTHREAD_MUTEX_ADAPTIVE_NP); /* it is held for a few dozen instructions */
    pthread_mutex_init(&monitor->lock, &adaptive);
    pthread_mutexattr_destroy(&adaptive);
    sti_timers_init(&monitor->timers, sti_clock_now());
    sti_expired_init(&monitor->expired);
}

void sti_monitor_end(struct sti_monitor *monitor)
{
    sti_watch_end(&monitor->watch);
    sti_plain_mutex_lock(&monitor->lock);
    while (monitor->timers.count > 0) {
        sti_plain_mutex_unlock(&monitor->lock);
        sched_yield();
        sti_plain_mutex_lock(&monitor->lock);
    }
    sti_plain_mutex_unlock(&monitor->lock);
    pthread_mutex_destroy(&monitor->lock);
    sti_expired_end(&monitor->expired);
}
