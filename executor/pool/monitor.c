/* SPDX-License-Identifier: MIT
 *
 * The pool's part of the watch's work: timers of tasks that wait, and what follows those that expired; see
 * monitor.h. */
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

struct sti_timer *sti_timers_expire(struct sti_timers *timers, uint64_t now)
{
    struct sti_timer *expired = NULL;
    uint64_t end = now >> TICK_SHIFT;
    uint64_t tick;
    while ((tick = next_tick(timers)) <= end) {
        unsigned level = 0;
        while (timers->used[level] == 0)
            level++;
        struct sti_timer *timer = timers->slots[level][digit(tick, level)];
        timers->tick = tick;
        while (timer != NULL) {
            struct sti_timer *following = timer->next;
            unlink_timer(timers, timer);
            if (timer->tick <= tick) {
                timers->count--;
                timer->next = expired;
                expired = timer;
            } else {
                file(timers, timer);
            }
            timer = following;
        }
    }
    if (timers->tick < end)
        timers->tick = end;
    return expired;
}

/* --- Deadlines of waiting tasks. --- */

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
    sti_continuation_hold();
    for (struct sti_timer *timer = ending->claimed; timer != NULL;) {
        sti_task *task = task_of(timer);
        timer = timer->next;
        if (task->fair_queue != NULL) {
            sti_fair_queue_remove(task->fair_queue, task);
            sti_task_release(task);
        }
        sti_task_end_unstarted(task, STINT_REASON_EXPIRED);
        sti_task_release(task);
    }
    sti_expired_hand_over(&ending->monitor->expired, sti_continuation_let_go());
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

/* --- The thread that runs what follows expired tasks. It inherits the signal mask of the watch's thread, which
 * blocks all: signals are for the application's threads. */

void sti_expired_init(struct sti_expired *expired)
{
    pthread_mutex_init(&expired->lock, NULL);
    pthread_cond_init(&expired->changed, NULL);
    expired->first = NULL;
    expired->last = NULL;
    expired->started = false;
    expired->ending = false;
}

static struct sti_line_turn *take_line(struct sti_expired *expired)
{
    pthread_mutex_lock(&expired->lock);
    while (expired->first == NULL && !expired->ending)
        pthread_cond_wait(&expired->changed, &expired->lock);
    struct sti_line_turn *line = expired->first;
    expired->first = NULL;
    pthread_mutex_unlock(&expired->lock);
    return line;
}

static void *run_lines(void *argument)
{
    struct sti_expired *expired = argument;
    struct sti_line_turn *line;
    pthread_setname_np(pthread_self(), "stint-expired");
    while ((line = take_line(expired)) != NULL)
        sti_continuation_run(line);
    return NULL;
}

static bool have_thread(struct sti_expired *expired)
{
    if (!expired->started && sti_thread_start(&expired->thread, NULL, run_lines, expired) == 0)
        expired->started = true;
    return expired->started;
}

static void append(struct sti_expired *expired, struct sti_line_turn *line)
{
    *(expired->first != NULL ? &expired->last->next : &expired->first) = line;
    while (line->next != NULL)
        line = line->next;
    expired->last = line;
}

void sti_expired_hand_over(struct sti_expired *expired, struct sti_line_turn *line)
{
    if (line == NULL)
        return;
    pthread_mutex_lock(&expired->lock);
    bool handed = have_thread(expired);
    if (handed)
        append(expired, line);
    pthread_cond_signal(&expired->changed);
    pthread_mutex_unlock(&expired->lock);
    if (!handed)
        sti_continuation_run(line);
}

void sti_expired_end(struct sti_expired *expired)
{
    pthread_mutex_lock(&expired->lock);
    expired->ending = true;
    pthread_cond_signal(&expired->changed);
    pthread_mutex_unlock(&expired->lock);
    if (expired->started)
        pthread_join(expired->thread, NULL);
    pthread_cond_destroy(&expired->changed);
    pthread_mutex_destroy(&expired->lock);
}
