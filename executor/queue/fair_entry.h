/* SPDX-License-Identifier: MIT
 *
 * One entry of the fair queue, and the table of them: what fair_queue.c is made of. All of it under the fair queue's
 * lock, but for the hints. */
#ifndef STI_EXECUTOR_QUEUE_FAIR_ENTRY_H
#define STI_EXECUTOR_QUEUE_FAIR_ENTRY_H

#include <stddef.h>
#include <stint/account.h>

#include "fair_queue.h"

enum sti_fair_entry_state {
    STI_FAIR_ENTRY_IDLE, /* nothing waits: a task of it runs, or it is kept for its time, which is ahead (ring->idle) */
    STI_FAIR_ENTRY_READY,
    STI_FAIR_ENTRY_HELD,
};

/* The entries that are held back for one account. Each brings a record along: the first one's becomes the account's,
 * the others' lie there as spares, and an entry that leaves takes one with it. So there is always one, and nothing can
 * fail (turnstiles, as in Solaris). */
struct sti_refused {
    struct sti_fair_key key; /* account: that is full; chained in the table, or with spares */
    struct sti_turns held[STI_PRIORITIES];
    unsigned count;
    struct sti_refused *spares;
};

struct sti_fair_entry {
    struct sti_fair_key key; /* its account, retained, and its priority */
    struct sti_turn turn;
    LIST_ENTRY(sti_fair_entry) link; /* among all */
    enum sti_fair_entry_state state;
    struct sti_fair_tasks tasks; /* that wait, the oldest first */
    size_t count;                /* of tasks that wait */
    unsigned running;            /* tasks that have begun and are not settled */
    uint64_t cost;               /* what its next task will take, by what the last ones took */
    struct sti_refused *refused;
    struct sti_refused *own; /* its spare record; NULL while it is held back */
    uint64_t since;          /* when it was first refused a slot for its next task; 0: it was not */
    stint_account *notified; /* it is ready because this account was to have a slot */
    bool granted;            /* its account has been entered already, for its next task */
};

static inline struct sti_fair_entry *sti_fair_entry_of(struct sti_turn *turn)
{
    return (struct sti_fair_entry *)((char *)turn - offsetof(struct sti_fair_entry, turn));
}

/* The numbers of the fair queue that anybody may read: those of waiting tasks, and of tasks held back.
 *
 * release: who reads that none waits any more may take it that those who took them out are done. */
static inline void sti_fair_number_set(atomic_size_t *number, size_t value)
{
    atomic_store_explicit(number, value, memory_order_release);
}

static inline size_t sti_fair_number_get(atomic_size_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

/* The table (fair_entry.c). The entry of an account in a priority, if it is known; made when it is not. NULL: no
 * memory. */
struct sti_fair_entry *sti_fair_entry_find(struct sti_fair_queue *fair_queue, const stint_account *account,
                                           stint_priority priority);
struct sti_fair_entry *sti_fair_entry_find_or_make(struct sti_fair_queue *fair_queue, stint_account *account,
                                                   stint_priority priority);
void sti_fair_entry_free(struct sti_fair_queue *fair_queue, struct sti_fair_entry *fair_entry);
bool sti_fair_entry_table_init(struct sti_fair_queue *fair_queue);
void sti_fair_entry_table_end(struct sti_fair_queue *fair_queue);

/* The entries that are held back for an account; NULL: none is. And in or out. */
struct sti_refused *sti_fair_entry_refused_by(const struct sti_fair_queue *fair_queue, const stint_account *full);
void sti_fair_entry_enter_refused(struct sti_fair_queue *fair_queue, struct sti_fair_entry *fair_entry,
                                  stint_account *full);
void sti_fair_entry_leave_refused(struct sti_fair_queue *fair_queue, struct sti_fair_entry *fair_entry);

/* From state to state (fair_entry.c). */
void sti_fair_entry_begin_ready(struct sti_fair_queue *fair_queue, struct sti_fair_entry *fair_entry);
void sti_fair_entry_end_ready(struct sti_fair_queue *fair_queue, struct sti_fair_entry *fair_entry);
void sti_fair_entry_hold_back(struct sti_fair_queue *fair_queue, struct sti_fair_entry *fair_entry,
                              stint_account *full);
void sti_fair_entry_end_holding_back(struct sti_fair_queue *fair_queue, struct sti_fair_entry *fair_entry);

/* Ready ones that were out of the turns for a moment, linked by next. */
void sti_fair_entry_put_back(struct sti_fair_entry_ring *ring, struct sti_turn *turns);

/* The plain tasks had their turn, but there were none. */
void sti_fair_entry_lift_plain(struct sti_fair_queue *fair_queue);

/* Ready or held back, with its last task taken out. */
void sti_fair_entry_begin_idle(struct sti_fair_queue *fair_queue, struct sti_fair_entry *fair_entry);

/* A task of it begins, in turn or out of it: what it is expected to take is charged. Then it has used more than that
 * already, and goes on. And it has ended, and has used so much. */
struct sti_bill sti_fair_entry_begin_task(struct sti_fair_queue *fair_queue, struct sti_fair_entry *fair_entry,
                                          bool in_turn);
void sti_fair_entry_advance_task(struct sti_fair_queue *fair_queue, struct sti_bill *bill, uint64_t used);
void sti_fair_entry_end_task(struct sti_fair_queue *fair_queue, const struct sti_bill *bill, uint64_t used);

/* One that is in none. */
void sti_turns_put(struct sti_turns *turns, struct sti_turn *turn);

/* One that is in this. */
void sti_turns_remove(struct sti_turns *turns, struct sti_turn *turn);

#endif
