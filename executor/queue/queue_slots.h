/* SPDX-License-Identifier: MIT
 *
 * Waiting for a slot: submitters that would rather wait than get EAGAIN, and delayed tasks that are due (delays.h).
 * Waiters are served first in, first out: they stand in a queue, and the thread that makes a slot puts the first one's
 * task into it. So no waiter is woken in vain, and none is overtaken by a submitter that has just come (a plain
 * submission is refused while others wait; of tasks that wait in the fair queue, only those that stand in a queue keep
 * their order).
 *
 * There is a queue for plain tasks, and one for each account and priority, as there may be a slot for one and none for
 * another; and apart from these as many for tasks that are due, which come before all submitters. The thread that makes
 * a slot goes round the queues until so many have been told that there is none: to come, to be served and to give up
 * cost the same however many wait. No queue is forgotten by that: while one has waiters there are tasks in the queue,
 * each of which makes a slot when it is taken out; and of an empty queue no waiter is refused a slot. Only where the
 * account has its maximum of waiting tasks, perhaps in other pools, is it another matter: such a queue stands aside,
 * and all of these are asked again when some account may have more (sti_queue_slots_fill_capped).
 *
 *   waiter:  line + 1; a fence; tries once more to put its task; sleeps
 *   taker:   takes a task out, so that its slot is free; claims the task, or fails to (a locked instruction); reads
 *            line
 *
 * A handshake by fences (alloc/platform/thread.h), in which the claim is the taker's barrier: it makes that anyway.
 * Concurrency Kit's fence after it is for processors where a locked instruction does not order what comes after. While
 * there is no waiter, a taker reads one word that no thread writes. */
#ifndef STI_EXECUTOR_QUEUE_QUEUE_SLOTS_H
#define STI_EXECUTOR_QUEUE_QUEUE_SLOTS_H

#include <ck_pr.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stint/pool.h>
#include <sys/queue.h>

#include "executor/base/state.h"

/* Whether it has neither an account nor a priority. */
static inline bool sti_admission_is_plain(const sti_task *task)
{
    return task->options.account == NULL && task->options.priority == STINT_PRIORITY_NORMAL;
}

/* Of what a waiter's put says: there is no slot for it now. */
static inline bool sti_admission_is_full(int error)
{
    return error == EAGAIN || error == EDQUOT;
}

/* All zeros before. */
void sti_queue_slots_init(struct sti_queue_slots *queue_slots);
void sti_queue_slots_end(struct sti_queue_slots *queue_slots);

/* What an answer is before there is one. */
#define STI_SLOT_WAITING (-1)

/* Stand in a queue, and serve the queues; the answer may come at once. 0;
 * ESHUTDOWN, ENOMEM: it is not. And take it out again, if it is in. */
int sti_queue_slots_stand(stint_pool *pool, struct sti_slot_waiter *waiter);
void sti_queue_slots_leave(stint_pool *pool, struct sti_slot_waiter *waiter);

/* Whether it stands in line; the account of its task then, retained; or NULL. */
bool sti_queue_slots_stands(stint_pool *pool, const struct sti_slot_waiter *waiter, stint_account **account);

/* Give slots to those who wait, for as many as there are. */
void sti_queue_slots_fill(stint_pool *pool);

/* The same when some account may have more tasks waiting than before. */
void sti_queue_slots_fill_capped(stint_pool *pool);

/* Nobody may wait any more, and nobody's task is put any more: they get ESHUTDOWN. */
void sti_queue_slots_close(stint_pool *pool);

/* The calling thread is to fill slots, although it may be the last to have kept the pool; and has done so. */
static inline void sti_queue_slots_keep(struct sti_queue_slots *queue_slots, int change)
{
    /* release, and acquire in sti_queue_slots_end: what it did with the pool it has done. */
    atomic_fetch_add_explicit(&queue_slots->fillers, (unsigned)change, memory_order_release);
}

/* For a taker, which has taken a task out and tried to claim it. */
static inline bool sti_queue_slots_are_wanted(struct sti_queue_slots *queue_slots)
{
    ck_pr_fence_atomic_load();
    return atomic_load_explicit(&queue_slots->queue, memory_order_relaxed) != 0;
}

static inline bool sti_queue_slots_are_wanted_for_plain(struct sti_queue_slots *queue_slots)
{
    return atomic_load_explicit(&queue_slots->plain_queued, memory_order_relaxed) != 0;
}

#endif
