/* SPDX-License-Identifier: MIT
 *
 * The monitor of a pool: what is to happen at a time, on the watch's thread (alloc/interrupt/watch.h), and which thread
 * runs the continuations. */
#ifndef STI_EXECUTOR_POOL_MONITOR_H
#define STI_EXECUTOR_POOL_MONITOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/interrupt/watch.h"
#include "executor/base/event.h"

/* --- Timers: a hierarchical wheel (Varghese and Lauck 1987). To put one in and to take it out again costs a few dozen
 * instructions, however many there are; both happen to every task that waits with a deadline, and hardly one expires.
 * The caller locks.
 *
 * Time is counted in ticks of about a millisecond. Of a tick's number each 6 bits are a digit, and each digit is a
 * level with 64 slots. A timer lies on the level of the highest digit in which its tick differs from the present one,
 * in the slot of its own digit there; so what is on a level comes before all that is on the levels above. When the
 * present reaches a slot, its timers go to lower levels, or have expired. */

#define STI_TIMER_LEVELS 8
#define STI_TIMER_SLOTS 64
#define STI_TIMERS_NONE UINT64_MAX

struct sti_timer {
    struct sti_timer *next;
    struct sti_timer **link; /* NULL: it is not in */
    uint64_t tick;           /* at whose beginning its deadline has passed */
    unsigned char level, slot;
    unsigned char kind; /* for its owner */
};

struct sti_timers {
    uint64_t tick;                   /* the present */
    size_t count;                    /* of those that are in, and of those that have expired */
    uint64_t used[STI_TIMER_LEVELS]; /* slots with something in, a bit each */
    struct sti_timer *slots[STI_TIMER_LEVELS][STI_TIMER_SLOTS];
    struct sti_timer *expired; /* and not been taken yet, the earliest first */
    struct sti_timer **expired_end;
};

/* All times by sti_clock_now. */
void sti_timers_init(struct sti_timers *timers, uint64_t now);

/* A timer that is not in. Returns when somebody has to look, if that is earlier than without it; otherwise
 * STI_TIMERS_NONE. */
uint64_t sti_timers_add(struct sti_timers *timers, struct sti_timer *timer, uint64_t deadline);

/* Remove a timer, also an expired one that has not been taken. Does nothing if the timer is not in. */
void sti_timers_remove(struct sti_timers *timers, struct sti_timer *timer);

/* Let time go on to now: those whose deadline has passed, up to a tick ago, expire. */
void sti_timers_expire(struct sti_timers *timers, uint64_t now);

/* Take the first that has expired. NULL: there is none. */
struct sti_timer *sti_timers_take(struct sti_timers *timers);

/* When to look next for more; STI_TIMERS_NONE. */
uint64_t sti_timers_next(const struct sti_timers *timers);

struct sti_line_turn;

/* --- The monitor, one for each pool. Its thread is the watch of the ground floor (alloc/interrupt/watch.h), which also
 * looks after the deadlines of running tasks and sends the preemption signals: one for the process, asleep when nothing
 * needs it. Only tasks with a wall limit or a time pay for this.
 *
 * A task that waits has its timer in only while it is in the state that this is for, or has been claimed by a thread
 * that is about to take it out:
 *
 *   submitter  puts the task where it waits; then, under the lock, if nobody has claimed it yet, puts its timer in
 *   claimant   claims the task; then, under the lock, takes its timer out if it is in
 *   watch      under the lock, takes out what has expired and claims it
 *
 * So as long as any is in the pool cannot be freed, and a task whose timer is in cannot be freed either.
 *
 * What follows. The watch's thread keeps all deadlines of the process: so it resolves futures and wakes their waiters,
 * and hands what follows, which may be the application's code, to a thread of the pool. This thread is started at the
 * first need, sleeps in between and ends with the pool. One pool's slow callbacks delay nobody's deadline; they delay
 * those of the same pool that come after them. Any thread. */

enum sti_timer_kind {
    STI_TIMER_EXPIRY,  /* of a task that is QUEUED: its deadline, at which it resolves */
    STI_TIMER_START,   /* of one that is DELAYED: its time, at which it starts (delays.h) */
    STI_TIMER_OVERDUE, /* of one that runs: its deadline has long passed (overdue.h) */
};

struct sti_monitor {
    struct sti_watch watch;
    atomic_bool watched; /* the watch has been told of this, or is about to be */
    _Alignas(64) pthread_mutex_t lock;
    struct sti_timers timers;
    struct sti_line_turn *line; /* what follows; this and the rest under the lock, too */
    struct sti_line_turn *line_end;
    sti_event handed; /* signalled when there is more of it, or the end */
    pthread_t thread; /* that runs it */
    bool has_thread;
    bool ending;
};

/* All zeros before. */
void sti_monitor_init(struct sti_monitor *monitor);

/* From now on nothing happens at its time. */
void sti_monitor_stop(struct sti_monitor *monitor);

/* The monitor has been stopped, and nothing is put in any more. Waits for threads that have claimed a task and are
 * about to take its timer out, and until all that follows has been run. */
void sti_monitor_end(struct sti_monitor *monitor);

/* Have the watch look after it. 0 or an errno value: no thread could be started. Then a task whose deadline passes
 * resolves when a worker comes to it. */
int sti_monitor_begin(struct sti_monitor *monitor);

/* Put the timer in, unless its task has been claimed: then that is over. The caller has a reference to the task. */
void sti_monitor_set(struct sti_monitor *monitor, struct sti_timer *timer, enum sti_timer_kind kind, uint64_t time);

/* Put off a timer whose time has come; UINT64_MAX: for ever. The caller has the lock. */
void sti_monitor_put_off(struct sti_monitor *monitor, struct sti_timer *timer, uint64_t time);

/* Take it out. For the thread that has claimed its task, or runs it. */
void sti_monitor_forget(struct sti_monitor *monitor, struct sti_timer *timer);

#endif
