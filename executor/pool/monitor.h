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

#include "executor/base/state.h"

struct sti_queued_turn;

/* --- The monitor, one for each pool. Its thread is the watch of the lower layer (alloc/interrupt/watch.h), which also
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
