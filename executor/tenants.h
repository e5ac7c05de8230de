/* SPDX-License-Identifier: MIT
 *
 * The tenants: where tasks wait that have an account or a priority. A tenant is what waits of one account in one
 * priority (of no account: one tenant too), first in, first out, and the tenants of a priority take turns, a task each.
 * So however many tasks one of them has waiting, another's next one waits for no more than one task of each (Nagle
 * 1987, fair queueing). A tenant whose account has its maximum of running tasks is held back: it takes no turns until
 * there is a slot again. Plain tasks, which have neither, wait in the submission queue, where nobody takes a lock.
 *
 *   tenant  IDLE ------> READY <------> HELD        IDLE: it has no tasks, and is forgotten
 *              a task        slot free /
 *              is put        full
 *
 * All of it is under one lock, held for a few dozen instructions. What is read without it are hints: how many tenants are
 * ready, how many tasks wait. They are stored under the lock, and ordered against sleep by park.h's fences.
 *
 * Whoever claims a task that waits here takes it out: a worker in sti_tenants_take, anybody else by sti_tenants_remove.
 * Until then the pool cannot be freed, so who has claimed one may touch the pool.
 *
 * The room has a capacity for all tenants together. One of them may take at most eight times as many places as are left
 * (dynamic thresholds, Choudhury and Hahne 1998): so there is always one for another. */
#ifndef STI_EXECUTOR_TENANTS_H
#define STI_EXECUTOR_TENANTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stint/pool.h>

#include "task.h"

#define STI_PRIORITIES 3

struct sti_tenant;

/* Those of one priority. */
struct sti_tenant_ring {
    struct sti_tenant *next; /* whose turn it is; NULL: none is ready */
    atomic_uint ready;
};

struct sti_tenants {
    stint_pool *pool;
    _Alignas(64) struct sti_tenant_ring rings[STI_PRIORITIES]; /* by stint_priority */
    atomic_uint ready;                                         /* tenants of any priority */
    atomic_size_t waiting;                                     /* tasks, of those held back too */
    atomic_size_t held;                                        /* of these */
    _Alignas(64) pthread_mutex_t lock;                         /* for all of it */
    struct sti_tenant *held_back;
    struct sti_tenant **table; /* all tenants, by account and priority */
    size_t table_size;
    size_t count;
    size_t capacity;
    size_t leaving; /* threads that took a task out and are not done with the pool */
    bool closed;
};

/* False: out of memory. */
bool sti_tenants_init(struct sti_tenants *tenants, stint_pool *pool, size_t capacity);

/* Nothing can be put in any more. Waits for those who have claimed a task and are about to take it out. */
void sti_tenants_end(struct sti_tenants *tenants);

/* Put a task in, and offer it. 0; EAGAIN: no place; ESHUTDOWN: closed; ENOMEM. Any thread. */
int sti_tenants_put(struct sti_tenants *tenants, sti_task *task);

/* Take out and claim the task whose turn it is, with its account entered (task->entered). NULL: there is none that may
 * run. Any thread. */
sti_task *sti_tenants_take(struct sti_tenants *tenants, stint_priority priority);

/* Take out and claim this task, for somebody who waits for it inside a task, with its account entered (task->entered).
 * Where the account has its maximum that is done only when the thread is in that account already: the task that runs
 * there makes way for this one. False: it does not wait here any more, or has to wait for a slot. */
bool sti_tenants_take_awaited(struct sti_tenants *tenants, sti_task *task);

/* Take out a task that waits here and that the calling thread has claimed to end it, and count it; its entry's reference is the caller's then.
 * When it was the last one of a pool that has closed, the workers are woken to see that. */
void sti_tenants_remove(struct sti_tenants *tenants, sti_task *task);

/* Claim and take out any task, of those held back too. NULL: none is left that nobody has claimed. */
sti_task *sti_tenants_take_any(struct sti_tenants *tenants);

/* The account may have a slot again: those who are held back for it get ready. True: there were any. Any thread. */
bool sti_tenants_release(struct sti_tenants *tenants, const stint_account *account);

/* From now on nothing can be put in. */
void sti_tenants_close(struct sti_tenants *tenants);

static inline unsigned sti_tenants_ready(struct sti_tenants *tenants, stint_priority priority)
{
    return atomic_load_explicit(&tenants->rings[priority].ready, memory_order_relaxed);
}

static inline bool sti_tenants_are_ready(struct sti_tenants *tenants)
{
    return atomic_load_explicit(&tenants->ready, memory_order_relaxed) != 0;
}

static inline size_t sti_tenants_waiting(struct sti_tenants *tenants)
{
    return atomic_load_explicit(&tenants->waiting, memory_order_acquire);
}

#endif
