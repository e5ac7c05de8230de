/* SPDX-License-Identifier: MIT
 *
 * Tasks as seen from another thread: those that are overdue, and how long one waits beside an idle worker. */
#ifndef STI_EXECUTOR_POOL_OVERDUE_H
#define STI_EXECUTOR_POOL_OVERDUE_H

#include <stdbool.h>
#include <stint/pool.h>

#include "executor/base/state.h"

/* --- Overdue tasks: those that still run when their deadline has passed for longer than the pool's overdue_ns. Nothing
 * ends them, so at least the pool goes on: a substitute takes the worker's place (substitute.h), and the application is
 * told.
 *
 *   worker   before the task begins: its entry's timer in; after it has ended: out, and its place back if it was
 *            replaced
 *   watch    what has expired: has its worker replaced, and hands a report to the pool's thread (monitor.h), which
 *            calls the application
 *
 * An entry lies on its worker's stack, and the watch deals with it under the monitor's lock: so the worker's second
 * step ends everybody's use of it. Pools without overdue_ns pay for a look at it. */

struct sti_worker;

/* When a task has to end that has started then (0: it has not); UINT64_MAX: never. */
uint64_t sti_overdue_deadline(const sti_task *task, uint64_t started);

/* Around a task, by its worker's thread. */
void sti_overdue_begin_task(struct sti_overdue_entry *entry, struct sti_worker *worker, sti_task *task);
void sti_overdue_end_task(struct sti_overdue_entry *entry);

/* The watch's thread, with the monitor's lock: its time has come. Always false: nothing is left to be done. */
bool sti_overdue_deal_with(struct sti_timer *timer);

/* --- Neglect: a task that waits while a worker is idle. The pool promises that there is none, beyond the time that it
 * takes to be woken; this measures it, so that it can be tested and watched. */

/* The worker has run the task, which had waited for long: look whether some worker, this one too, had nothing to do
 * meanwhile. By its own thread. */
void sti_neglect_note(struct sti_worker *worker, const sti_task *task);

#endif
