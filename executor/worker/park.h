/* SPDX-License-Identifier: MIT
 *
 * Parking: how workers without work stop using the CPU, and how new work wakes exactly as many as it needs. A worker is
 * in one of three states:
 *
 *   RUNNING    runs a task, or takes one from its own deque or the submission queue.
 *   SEARCHING  found neither; looks at all sources, for a short while again and again. Counted in lot.searching.
 *   PARKED     its bit in lot.parked is set, and it sleeps on its own event.
 *
 *   RUNNING -> SEARCHING    sti_park_begin_search: searching + 1
 *   SEARCHING -> RUNNING    sti_park_end_search: searching - 1; the last searcher looks whether there is more work, and
 *                           if so wakes one more
 *   SEARCHING -> PARKED     sti_park_wait: set the bit, searching - 1, look at all sources once more, sleep
 *   PARKED -> SEARCHING     whoever clears the bit does it: searching + 1, call the worker (substitute.h); or itself,
 *                           if that last look found something and nobody else had cleared the bit
 *
 * New work (sti_park_notify): if nobody is searching, wake one that is parked. While somebody searches nobody need be
 * woken, because a searcher always looks again after it has stopped counting as one; and with every worker running both
 * words are only read, so that submitting makes no system call and writes nothing that is shared.
 *
 * Why no wake-up is lost: a handshake by fences (alloc/platform/thread.h).
 *
 *   submitter  puts the task in; fence; reads searching, then parked
 *   worker     sets its bit, takes itself off searching; fence; reads all sources
 *
 * If the submitter's fence comes first, the worker's look finds the task. If the worker's comes first, the submitter
 * finds searching without that worker, and its bit set (or cleared by a thread that is waking it: it will look again).
 * The same is true of sti_park_end_search, whose look comes after its decrement and a fence. tests/models/park.pml
 * shows how both miss each other without the submitter's fence.
 *
 * Forks. Work that is there but not public cannot be found by a look: it has to be asked for (split.c), and the owner
 * answers at the next fork or join, by sharing something and then by a notify. So a worker that is about to sleep asks,
 * after its fence and before its look, every worker that has nothing public. What if the question is overwritten by an
 * answer that came just before? Then the answer's store came after the question, so its notify's fence came after the
 * worker's, and finds the bit set. A worker that waits in a join sleeps in the same way (sti_park_await), with its bit
 * in lot.awaiting; as it takes only subtasks of its own task, whoever shares something wakes all of these.
 *
 * Inbox. sti_park_wake announces what sti_subtask_collect has to do, which ends the sleep of one worker. It is one more
 * thing to look at after the fence.
 *
 * Leaving. A pool that closes stores its phase, then wakes all who are parked, by the same rule; so sti_park_wait reads
 * the phase after its fence. A worker that finds nothing and the pool closed takes its bit back, and only then leaves.
 * (For that the submission queue must be empty: an accepted task may be in it behind one whose push has not ended, out
 * of reach. For parking it is enough that nothing can be taken: whoever ends that push will notify.) Nor does it leave
 * while tasks are held back (fair_queue.h): it sleeps on, and whoever takes the last of them out wakes all. A submitter
 * that did not wake it, and whose task it did not see, came after that: it finds the bit cleared, then (acquire) the
 * pool closed, and takes its task back. tests/models/close.pml tries all of this. */
#ifndef STI_EXECUTOR_WORKER_PARK_H
#define STI_EXECUTOR_WORKER_PARK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stint/pool.h>

#include "executor/base/state.h"

struct sti_offer;
struct sti_worker;

/* After new work was put where workers look. Any thread. */
void sti_park_notify(stint_pool *pool);

/* The same after a fork was made public. */
void sti_park_notify_shared(stint_pool *pool);

/* Whether some worker is parked or searches. A guess. Any thread. */
bool sti_park_is_anybody_idle(stint_pool *pool);

/* End this worker's sleep, if it is parked. Any thread. */
void sti_park_wake(struct sti_worker *worker);

/* Wake all who are parked: the pool has closed. Any thread. */
void sti_park_notify_all(stint_pool *pool);

/* Sleep in a join until what a thief has may have ended, or there may be something of its group to steal. False: until
 * the deadline (STI_NEVER: none). The worker's own thread. */
bool sti_park_await(struct sti_worker *worker, const struct sti_offer *offer, uint64_t deadline_ns);

/* For substitutes (substitute.h). Place: one that sleeps is to be woken for new work from now on, as if it had parked
 * by itself; at once, if there is some that nobody looks for, or the pool has closed. Withdraw: take that back from one
 * of those with this index at least; NULL: none is parked. Wake one that nobody else can wake. Hand on: the thread will
 * not look for work any more; if there is some, and nobody looks for it, wake another. */
void sti_park_place(struct sti_worker *worker);
struct sti_worker *sti_park_withdraw(stint_pool *pool, unsigned from);
void sti_park_wake_retired(struct sti_worker *worker);
void sti_park_hand_on(stint_pool *pool);

/* The worker has been woken: note how long it had nothing to do. Its own thread. */
void sti_park_note_awake(struct sti_worker *worker);

/* The worker's own thread. */
void sti_park_begin_search(stint_pool *pool);
void sti_park_end_search(stint_pool *pool);

/* Sleep until there is something to look for: true, and the worker is SEARCHING. False: the pool has closed, nothing is
 * left, the worker is no longer counted and must leave; or it is a substitute that has stood aside for long. The
 * worker's own thread, SEARCHING. */
bool sti_park_wait(struct sti_worker *worker);

#endif
