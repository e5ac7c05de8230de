/* SPDX-License-Identifier: MIT
 *
 * Where tasks wait that have an account or a priority: the fair queue, and the order of turns in it. */
#ifndef STI_EXECUTOR_QUEUE_FAIR_QUEUE_H
#define STI_EXECUTOR_QUEUE_FAIR_QUEUE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/pool.h>

#include "executor/base/state.h"

/* --- The fair queue: where tasks wait that have an account or a priority. An entry is what waits of one account in one
 * priority (of no account: one entry too), first in, first out, and the entries of a priority take turns by the
 * time for which their tasks have occupied workers, divided by their weights (fair_queue.h). So however many tasks one
 * of them has waiting, and however long they take, another gets its share. An entry whose account has its maximum of
 * running tasks is held back: it takes no turns until there is a slot again. Plain tasks, which have neither, wait in
 * the submission queue, where nobody takes a lock; beside entries they count as one of normal priority.
 *
 *   entry  IDLE <-----> READY <------> HELD        IDLE: it has no tasks waiting, and is forgotten when nothing is
 *              a task        slot free /                  charged to it any more that others have not had since
 *              is put        full
 *
 * All of it is under one lock, held for a few dozen instructions. What is read without it are hints: how many entries
 * are ready, how many tasks wait, whose time has come. They are stored under the lock, and ordered against sleep by
 * park.h's fences.
 *
 * A slot that is free again is for one: of all pools' entries that are held back for the account, one that has waited
 * longest gets ready (pools.c), and the others stay. If that one cannot use it, it is offered again. So it is when all
 * threads of its pool have fallen asleep: a handshake by fences (alloc/platform/thread.h) between the last of them,
 * which stores that nobody holds a place, and looks whether an entry is ready; and who made it ready, and looks at
 * places.
 *
 * Whoever claims a task that waits here takes it out: a worker in sti_fair_queue_take, anybody else by
 * sti_fair_queue_remove. Until then the pool cannot be freed, so a thread that has claimed one may touch the pool.
 *
 * The fair queue has a capacity for all entries together. One of them may take at most eight times as many slots as are
 * left (dynamic thresholds, Choudhury and Hahne 1998): so of nine or more one entry alone always leaves one for
 * another. */

/* All zeros before. False: out of memory. */
bool sti_fair_queue_init(struct sti_fair_queue *fair_queue, stint_pool *pool, size_t capacity);

/* Nothing can be put in any more: wait for those who have claimed a task and are about to take it out. And nobody looks
 * any more (queue_slots.h). */
void sti_fair_queue_await(struct sti_fair_queue *fair_queue);
void sti_fair_queue_end(struct sti_fair_queue *fair_queue);

/* Put a task in, and offer it. 0; EAGAIN: no slot; EDQUOT: the account has its maximum of waiting tasks; ESHUTDOWN:
 * closed; ENOMEM. Any thread. */
int sti_fair_queue_put(struct sti_fair_queue *fair_queue, sti_task *task);

/* Take out and claim the task whose turn it is, with its account entered (task->entered). NULL: there is none that may
 * run. no_plain: plain tasks had their turn, and the worker found none. Any thread. */
sti_task *sti_fair_queue_take(struct sti_fair_queue *fair_queue, stint_priority priority, bool no_plain);

/* A plain task begins in its turn; a subtask of a running task begins on another worker. (A task that was taken out of
 * here has its bill.) */
struct sti_bill sti_fair_queue_bill_plain(struct sti_fair_queue *fair_queue);
struct sti_bill sti_fair_queue_bill_fork(struct sti_fair_queue *fair_queue, const stint_account *account,
                                         stint_priority priority);

/* It goes on, and has occupied its worker for so long already: where that is more than what is charged, it is charged.
 * By the task's thread. */
void sti_fair_queue_advance(struct sti_fair_queue *fair_queue, struct sti_bill *bill, uint64_t used_ns);

/* It has ended, and occupied its worker for so long. The task may be gone. Any thread. */
void sti_fair_queue_settle(struct sti_fair_queue *fair_queue, struct sti_bill bill, uint64_t used_ns);

/* Take out and claim this task, for a waiter inside a task, with its account entered (task->entered).
 * Where the account has its maximum that is done only when the thread is in that account already, or beyond is true:
 * the task that runs there makes way for this one. False: it does not wait here any more, or has to wait for a slot. */
bool sti_fair_queue_take_awaited(struct sti_fair_queue *fair_queue, sti_task *task, bool beyond);

/* The account of a task, if that waits here, retained; or NULL. */
stint_account *sti_fair_queue_account_of(struct sti_fair_queue *fair_queue, sti_task *task);

/* Take out a task that waits here and that the calling thread has claimed to end it, and count it; its entry's
 * reference is the caller's then. When it was the last one of a pool that has closed, the workers are woken to see
 * that. */
void sti_fair_queue_remove(struct sti_fair_queue *fair_queue, sti_task *task);

/* Claim and take out any task, of those held back too. NULL: none is left that nobody has claimed. */
sti_task *sti_fair_queue_take_any(struct sti_fair_queue *fair_queue);

/* Since when the one that has waited longest is held back for this account; 0: none is. Any thread. */
uint64_t sti_fair_queue_refused_since(struct sti_fair_queue *fair_queue, const stint_account *account);

/* The account may have a slot again: of those that are held back for it the first of each priority gets ready. True:
 * there were any. Any thread. */
bool sti_fair_queue_release(struct sti_fair_queue *fair_queue, const stint_account *account);

/* Slots that were taken for a moment: the account's and those above it, up to end. */
struct sti_slots {
    stint_account *account; /* retained; NULL: none */
    stint_account *end;
};

/* The same, but take the slot for the one that has waited longest, so that nobody else can. False: there is none after
 * all, or nobody waits. What was tried in vain is to be told (sti_account_notify) when the caller holds no lock. Any
 * thread. */
bool sti_fair_queue_grant(struct sti_fair_queue *fair_queue, const stint_account *account, struct sti_slots *tried);

/* All of the pool's threads sleep: what slots were meant for those who wait here are for others. They stay ready, and
 * try again when a thread is there. Any thread. */
void sti_fair_queue_pass_on(struct sti_fair_queue *fair_queue);

/* Call look with each task that is in, under the lock. */
void sti_fair_queue_look(struct sti_fair_queue *fair_queue, void (*look)(void *task, void *arg), void *arg);

/* From now on nothing can be put in. */
void sti_fair_queue_close(struct sti_fair_queue *fair_queue);

static inline unsigned sti_fair_queue_ready(struct sti_fair_queue *fair_queue, stint_priority priority)
{
    return atomic_load_explicit(&fair_queue->rings[priority].ready, memory_order_relaxed);
}

/* Whether it is the plain tasks' turn among those of normal priority. */
static inline bool sti_fair_queue_is_plain_next(struct sti_fair_queue *fair_queue)
{
    struct sti_fair_entry_ring *ring = &fair_queue->rings[STINT_PRIORITY_NORMAL];
    uint64_t plain = atomic_load_explicit(&fair_queue->plain_time, memory_order_relaxed);
    return sti_fair_queue_ready(fair_queue, STINT_PRIORITY_NORMAL) == 0 ||
           !sti_time_is_before(atomic_load_explicit(&ring->first, memory_order_relaxed), plain);
}

/* All that is in is held back, and there is room for no more. A guess. */
static inline bool sti_fair_queue_is_jammed(struct sti_fair_queue *fair_queue)
{
    size_t held = atomic_load_explicit(&fair_queue->held, memory_order_relaxed);
    return held == fair_queue->capacity && held == atomic_load_explicit(&fair_queue->waiting, memory_order_relaxed);
}

/* There is room for no more, and it is so of the accounts of all that is in. */
bool sti_fair_queue_is_full_of(struct sti_fair_queue *fair_queue, bool (*is_it)(const stint_account *account));

static inline bool sti_fair_queue_are_ready(struct sti_fair_queue *fair_queue)
{
    return atomic_load_explicit(&fair_queue->ready, memory_order_relaxed) != 0;
}

static inline size_t sti_fair_queue_waiting(struct sti_fair_queue *fair_queue)
{
    return atomic_load_explicit(&fair_queue->waiting, memory_order_acquire);
}

#endif
