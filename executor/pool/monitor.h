/* SPDX-License-Identifier: MIT
 *
 * The monitor of a pool: it ends tasks whose deadline passes while they wait, on the watch's thread
 * (alloc/interrupt/watch.h), and has what follows those run. */
#ifndef STI_EXECUTOR_POOL_MONITOR_H
#define STI_EXECUTOR_POOL_MONITOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stint/pool.h>

#include "alloc/interrupt/watch.h"
#include "executor/task/task.h"
#include "timers.h"

/* --- What follows tasks that expired. The watch's thread, which ends them (monitor.h), is one for the process and
 * keeps all its deadlines: so it resolves the futures and wakes their waiters, and hands what follows, which may be the
 * application's code, to a thread of the pool. That is started at the first need, sleeps in between and ends with the
 * pool. One pool's slow callbacks delay nobody's deadline; they delay those of the same pool that come after them. */

struct sti_line_turn;

struct sti_expired {
    pthread_mutex_t lock; /* for the rest */
    pthread_cond_t changed;
    struct sti_line_turn *first; /* the line */
    struct sti_line_turn *last;
    pthread_t thread;
    bool started;
    bool ending;
};

void sti_expired_init(struct sti_expired *expired);

/* Nothing is handed over any more. Returns when all of it has run. */
void sti_expired_end(struct sti_expired *expired);

/* Have the line (sti_continuation_let_go) run. Where no thread can be started it is run here. The watch's thread. */
void sti_expired_hand_over(struct sti_expired *expired, struct sti_line_turn *line);

/* --- The monitor, one for each pool: tasks whose deadline passes while they wait resolve then, not when a worker comes
 * to them. Its thread is the watch of the ground floor (alloc/interrupt/watch.h), which also looks after the deadlines
 * of running tasks and sends the preemption signals: one for the process, asleep when nothing needs it. Only tasks with
 * a wall limit pay for this.
 *
 *   submitter  puts the task where it waits; then, under the lock, if nobody has claimed it yet, puts its timer in
 *   claimant   claims the task; then, under the lock, takes its timer out if it is in
 *   watch      under the lock, takes out what has expired and claims it
 *
 * So a timer is in only while its task is queued, or claimed by somebody who is about to take it out: as long as any is
 * in the pool cannot be freed, and a task whose timer is in cannot be freed either. Any thread. */

struct sti_monitor {
    struct sti_watch watch;
    atomic_bool watched; /* the watch has been told of this, or is about to be */
    _Alignas(64) pthread_mutex_t lock;
    struct sti_timers timers;
    struct sti_expired expired; /* what follows them */
};

void sti_monitor_init(struct sti_monitor *monitor);

/* Nothing is put in any more. Waits for those who have claimed a task and are about to take its timer out. */
void sti_monitor_end(struct sti_monitor *monitor);

/* The task, which has a monitor, has been put where it waits. The caller has a reference to it. */
void sti_monitor_await(sti_task *task);

/* The task, which has a monitor, has been claimed by the calling thread. */
void sti_monitor_forget(sti_task *task);

#endif
