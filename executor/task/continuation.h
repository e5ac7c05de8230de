/* SPDX-License-Identifier: MIT
 *
 * Continuations: what is to happen when a future resolves. A callback, a compound future that counts its members, a
 * completion queue, a task that waits for its turn: each puts a record of its own on the future's list, and one thread
 * at a time runs them, first in, first out.
 *
 * The task's word `continuations` only ever gains bits:
 *
 *   RESOLVED   it has; the outcome is there
 *   SLEEPERS   somebody may sleep until the event woken is signalled
 *   FOLLOWED   there are, or were, records on the list
 *
 *   resolve    state = RESOLVED; then a compare-and-swap of the word from 0 to RESOLVED. Nearly always that is all. If
 *              another bit is there: or-in of RESOLVED, signal where there are sleepers, and drain where it is
 *              followed.
 *   follow     under the task's lock: or-in of FOLLOWED, record on the list. If the word said RESOLVED, drain.
 *   drain      under the lock: unless the list is empty or has a drainer already, the thread is the drainer, until it
 *              finds the list empty under the lock. The drainer runs the records one by one, without the lock.
 *   unfollow   under the lock: take the record off the list, if it is still there.
 *   sleep      or-in of SLEEPERS; unless the word said RESOLVED: read the event's value; look at the state; wait while
 *              the value is what it was (event.h).
 *
 * Why each record is run once, and in order. The or-ins have one order (acq_rel). If the resolver's came first, the
 * follower sees RESOLVED; otherwise the resolver sees FOLLOWED, and takes the lock after the record was put in. So one
 * of the two drains. There is one drainer at a time, and the list is first in, first out: the drainer also runs records
 * that are put in while it drains. The lock is held for a few instructions.
 *
 * Why no sleeper sleeps on. If its or-in comes second, it sees RESOLVED. If it comes first, the resolver sees the bit,
 * and signals after it has stored the state: either the sleeper finds the state, or the event's value has changed since
 * it was read. The event is signalled for other reasons too (deadlock.h). tests/models/follow.pml tries all of this.
 *
 * The queue. A continuation may resolve other futures, whose continuations resolve others. So that no chain of them
 * needs a stack of its length, the tasks of which a thread is the drainer are queued, and the outermost call on this
 * thread runs the queue until it is empty. While it does the thread counts as following: then nothing may wait. An
 * entry of the queue keeps its task alive. A drainer stays one until all else in its queue has been run: so when the
 * continuation of a resolved task runs, all that came of the task's end on that thread has come.
 *
 * Any thread. */
#ifndef STI_EXECUTOR_TASK_CONTINUATION_H
#define STI_EXECUTOR_TASK_CONTINUATION_H

#include <stdbool.h>

#include "executor/base/state.h"

struct sti_continuation {
    struct sti_continuation *next;
    struct sti_continuation **link; /* NULL: it is on no list */
    sti_task *task;
    void (*run)(struct sti_continuation *continuation); /* the callback owns the record from here */
};

/* Have continuation->run called, once, when continuation->task has resolved; before this returns if it has already,
 * nobody else is its drainer, and the thread is not following. The caller sets these two, and keeps the task alive
 * until this returns. */
void sti_continuation_add(struct sti_continuation *continuation);

/* Take a record back that was given to sti_continuation_add, or has no link; the caller keeps it and the task alive. 0:
 * it will not be run. EBUSY: it is being run right now, in this process. EALREADY: it is not on the list. */
int sti_continuation_remove(struct sti_continuation *continuation);

/* Whether there is anything on the list of a task that has not resolved. */
bool sti_continuation_is_followed(sti_task *task);

/* The task's lock, for what else follows from its end: for a few instructions, under which no other is taken. */
void sti_continuation_lock(sti_task *task);
void sti_continuation_unlock(sti_task *task);

/* Run this from the queue. */
void sti_continuation_now(sti_task *task, struct sti_queued_turn *turn, void (*run)(struct sti_queued_turn *turn));

/* Resolve it from the queue: for a thread that may hold the list of the pools (sti_pools_fill), which what follows may
 * need. */
void sti_task_resolve_queued(sti_task *task);

/* Whether the task has resolved, all continuations that were added by then have been run, and so have those of the
 * futures that they resolved. */
bool sti_continuation_is_settled(sti_task *task);

/* For the resolver, when the state says so: wake its waiters, run what follows. */
void sti_continuation_resolve(sti_task *task);

/* The calling thread is about to sleep until task->woken is signalled, and the task has resolved. False: it has. */
bool sti_continuation_expect_sleeper(sti_task *task);

/* For a thread that ends tasks for others and must not be delayed: from now on, what follows the futures that it
 * resolves is only queued. The second call ends that and gives the queue, linked by next, to be run by a thread
 * that is not following. */
void sti_continuation_hold(void);
struct sti_queued_turn *sti_continuation_let_go(void);
void sti_continuation_run(struct sti_queued_turn *queue);

/* The calling thread, which is not following, calls something of the application's that must not wait either; and
 * has. */
void sti_continuation_begin_callback(void);
void sti_continuation_end_callback(void);

/* Whether the calling thread is running continuations: it is in somebody's callback. */
bool sti_continuation_is_running(void);

#endif
