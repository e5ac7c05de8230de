/* SPDX-License-Identifier: MIT
 *
 * The pool's part of the watch's work: timers, and what follows those that expired; see monitor.h. */
#include "monitor.h"

#include <sched.h>
#include <stddef.h>
#include <string.h>

#include "alloc/base/clock.h"
#include "alloc/base/module.h"
#include "alloc/base/thread.h"
#include "alloc/interrupt/watch.h"
#include "executor/queue/fair_queue.h"
#include "executor/task/continuation.h"
#include "executor/task/delays.h"
#include "overdue.h"

/* --- The timing wheel. --- */

#define TICK_SHIFT 20
#define DIGIT_BITS 6
#define DIGIT_MASK ((uint64_t)STI_TIMER_SLOTS - 1)

static unsigned digit(uint64_t tick, unsigned level)
{
    return (unsigned)(tick >> level * DIGIT_BITS & DIGIT_MASK);
}

void sti_timers_init(struct sti_timers *timers, uint64_t now)
{
    memset(timers, 0, sizeof *timers);
    timers->tick = now >> TICK_SHIFT;
    timers->expired_end = &timers->expired;
}

/* Ticks have 44 bits, levels enough for 48. */
static void file(struct sti_timers *timers, struct sti_timer *timer)
{
    uint64_t difference = timer->tick ^ timers->tick;
    unsigned level = (63 - (unsigned)__builtin_clzll(difference)) / DIGIT_BITS;
    unsigned slot = digit(timer->tick, level);
    struct sti_timer **head = &timers->slots[level][slot];
    timer->level = (unsigned char)level;
    timer->slot = (unsigned char)slot;
    timer->next = *head;
    timer->link = head;
    if (*head != NULL)
        (*head)->link = &timer->next;
    *head = timer;
    timers->used[level] |= UINT64_C(1) << slot;
}

/* The tick at which the first used slot begins. A level's used slots all lie ahead of the present. */
static uint64_t next_tick(const struct sti_timers *timers)
{
    for (unsigned level = 0; level < STI_TIMER_LEVELS; level++) {
        if (timers->used[level] == 0)
            continue;
        uint64_t slot = (uint64_t)__builtin_ctzll(timers->used[level]);
        uint64_t above = timers->tick >> (level + 1) * DIGIT_BITS << (level + 1) * DIGIT_BITS;
        return above | slot << level * DIGIT_BITS;
    }
    return STI_TIMERS_NONE;
}

uint64_t sti_timers_next(const struct sti_timers *timers)
{
    uint64_t tick = next_tick(timers);
    return tick != STI_TIMERS_NONE ? tick << TICK_SHIFT : STI_TIMERS_NONE;
}

uint64_t sti_timers_add(struct sti_timers *timers, struct sti_timer *timer, uint64_t deadline)
{
    uint64_t before = next_tick(timers);
    timer->tick = (deadline >> TICK_SHIFT) + 1;
    if (timer->tick <= timers->tick)
        timer->tick = timers->tick + 1;
    file(timers, timer);
    timers->count++;
    uint64_t after = next_tick(timers);
    return after < before ? after << TICK_SHIFT : STI_TIMERS_NONE;
}

static void unlink_timer(struct sti_timers *timers, struct sti_timer *timer)
{
    *timer->link = timer->next;
    if (timer->next != NULL)
        timer->next->link = timer->link;
    else if (timers->expired_end == &timer->next)
        timers->expired_end = timer->link;
    timer->link = NULL;
    if (timers->slots[timer->level][timer->slot] == NULL)
        timers->used[timer->level] &= ~(UINT64_C(1) << timer->slot);
}

void sti_timers_remove(struct sti_timers *timers, struct sti_timer *timer)
{
    if (timer->link == NULL)
        return;
    unlink_timer(timers, timer);
    timers->count--;
}

/* A slot has the last one first. before: the end, as it was before this slot. */
static void expire(struct sti_timers *timers, struct sti_timer **before, struct sti_timer *timer)
{
    timer->next = *before;
    timer->link = before;
    *(*before != NULL ? &(*before)->link : &timers->expired_end) = &timer->next;
    *before = timer;
}

void sti_timers_expire(struct sti_timers *timers, uint64_t now)
{
    uint64_t end = now >> TICK_SHIFT;
    uint64_t tick;
    while ((tick = next_tick(timers)) <= end) {
        unsigned level = 0;
        while (timers->used[level] == 0)
            level++;
        struct sti_timer *timer = timers->slots[level][digit(tick, level)];
        struct sti_timer **before = timers->expired_end;
        timers->tick = tick;
        while (timer != NULL) {
            struct sti_timer *following = timer->next;
            unlink_timer(timers, timer);
            if (timer->tick <= tick)
                expire(timers, before, timer);
            else
                file(timers, timer);
            timer = following;
        }
    }
    if (timers->tick < end)
        timers->tick = end;
}

struct sti_timer *sti_timers_take(struct sti_timers *timers)
{
    struct sti_timer *timer = timers->expired;
    if (timer != NULL)
        sti_timers_remove(timers, timer);
    return timer;
}

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

/* It is retained, before it is claimed: then its entry may go at any moment. One that has more time by now, and has not
 * been claimed, waits on. */
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
static bool run_line(struct sti_monitor *monitor)
{
    uint32_t value = sti_event_value(&monitor->handed);
    sti_plain_mutex_lock(&monitor->lock);
    struct sti_line_turn *line = monitor->line;
    bool ending = monitor->ending;
    monitor->line = NULL;
    sti_plain_mutex_unlock(&monitor->lock);
    if (line != NULL)
        sti_continuation_run(line);
    else if (!ending)
        sti_event_wait(&monitor->handed, value, STI_NEVER);
    return line != NULL || !ending;
}

/* The thread inherits the signal mask of the watch's, which blocks all: signals are for the application's threads. */
static void *run_lines(void *monitor)
{
    pthread_setname_np(pthread_self(), "stint-expired");
    while (run_line(monitor))
        ;
    return NULL;
}

static void append(struct sti_monitor *monitor, struct sti_line_turn *line)
{
    *(monitor->line != NULL ? &monitor->line_end->next : &monitor->line) = line;
    while (line->next != NULL)
        line = line->next;
    monitor->line_end = line;
}

/* Where no thread can be started it is run here. */
static void hand_over(struct sti_monitor *monitor, struct sti_line_turn *line)
{
    if (line == NULL)
        return;
    sti_plain_mutex_lock(&monitor->lock);
    bool handed = monitor->has_thread || sti_thread_start(&monitor->thread, NULL, run_lines, monitor) == 0;
    monitor->has_thread = handed;
    if (handed)
        append(monitor, line);
    sti_plain_mutex_unlock(&monitor->lock);
    if (handed)
        sti_event_signal(&monitor->handed);
    else
        sti_continuation_run(line);
}

/* --- The watch's thread ------------------------------------------------------------------------------------------- */

/* As many at a time, so that the deadlines of others are kept in between. */
#define BATCH 256

static struct sti_timer *claim_next(struct sti_monitor *monitor)
{
    sti_plain_mutex_lock(&monitor->lock);
    struct sti_timer *timer;
    do
        timer = sti_timers_take(&monitor->timers);
    while (timer != NULL && !kinds[timer->kind].claim(timer));
    sti_plain_mutex_unlock(&monitor->lock);
    return timer;
}

/* What follows runs elsewhere: this thread has other deadlines to keep. */
static void act(void *argument)
{
    struct sti_monitor *monitor = argument;
    struct sti_timer *timer;
    sti_continuation_hold();
    for (unsigned i = 0; i < BATCH && (timer = claim_next(monitor)) != NULL; i++)
        kinds[timer->kind].act(timer);
    hand_over(monitor, sti_continuation_let_go());
}

static uint64_t look_at_timers(struct sti_watch *watch, uint64_t now)
{
    struct sti_monitor *monitor = (struct sti_monitor *)((char *)watch - offsetof(struct sti_monitor, watch));
    sti_plain_mutex_lock(&monitor->lock);
    sti_timers_expire(&monitor->timers, now);
    bool any = monitor->timers.expired != NULL;
    uint64_t next = sti_timers_next(&monitor->timers);
    sti_plain_mutex_unlock(&monitor->lock);
    if (!any)
        return next != STI_TIMERS_NONE ? next : STI_WATCH_NEVER;
    sti_watch_call(watch, act, monitor);
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

static bool is_wanted(struct sti_timer *timer, enum sti_timer_kind kind)
{
    return kinds[kind].state < 0 ||
           atomic_load_explicit(&task_of(timer)->state, memory_order_relaxed) == kinds[kind].state;
}

void sti_monitor_set(struct sti_monitor *monitor, struct sti_timer *timer, enum sti_timer_kind kind, uint64_t time)
{
    uint64_t look = STI_TIMERS_NONE;
    sti_plain_mutex_lock(&monitor->lock);
    if (is_wanted(timer, kind)) {
        timer->kind = (unsigned char)kind;
        look = sti_timers_add(&monitor->timers, timer, time);
    }
    sti_plain_mutex_unlock(&monitor->lock);
    sti_monitor_begin(monitor);
    if (look != STI_TIMERS_NONE)
        sti_watch_hasten(look);
}

void sti_monitor_forget(struct sti_monitor *monitor, struct sti_timer *timer)
{
    sti_plain_mutex_lock(&monitor->lock);
    sti_timers_remove(&monitor->timers, timer);
    sti_plain_mutex_unlock(&monitor->lock);
}

void sti_monitor_init(struct sti_monitor *monitor)
{
    monitor->watch = (struct sti_watch){ .look = look_at_timers };
    pthread_mutexattr_t adaptive;
    pthread_mutexattr_init(&adaptive);
    pthread_mutexattr_settype(&adaptive, PTHREAD_MUTEX_ADAPTIVE_NP); /* it is held for a few dozen instructions */
    pthread_mutex_init(&monitor->lock, &adaptive);
    pthread_mutexattr_destroy(&adaptive);
    sti_timers_init(&monitor->timers, sti_clock_now());
}

void sti_monitor_stop(struct sti_monitor *monitor)
{
    sti_watch_end(&monitor->watch);
}

void sti_monitor_end(struct sti_monitor *monitor)
{
    sti_plain_mutex_lock(&monitor->lock);
    while (monitor->timers.count > 0) {
        sti_plain_mutex_unlock(&monitor->lock);
        sched_yield();
        sti_plain_mutex_lock(&monitor->lock);
    }
    monitor->ending = true;
    sti_plain_mutex_unlock(&monitor->lock);
    sti_event_signal(&monitor->handed);
    if (monitor->has_thread)
        pthread_join(monitor->thread, NULL);
    pthread_mutex_destroy(&monitor->lock);
}
