/* SPDX-License-Identifier: MIT
 *
 * The group: what the threads of one task share. The group is made on the task's own thread when something of the task
 * is about to be shared for the first time (subtask.h); a task that shares nothing has none.
 *
 * A share is what one thread has of it: its part of the budget, the heaps that stolen subtasks left there. The task's
 * own scope is one, and on every other thread that helps, the outermost stolen subtask that runs there: the scope's
 * share field leads to it. Scopes inside such a scope charge it as ever. Shares other than the task's own stay on a
 * list of the group until it is decided whether what they hold is committed.
 *
 * Interrupts. interrupt.tripped is written once, by the thread that finds a reason first; then a sample is requested of
 * every share's thread (thread.h), and finds it at its next sample point. */
#ifndef STI_ALLOC_METER_SHARED_BUDGET_H
#define STI_ALLOC_METER_SHARED_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/task.h>

#include "alloc/interrupt/interrupt.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"

struct sti_group;
struct sti_undo_log;

/* Its thread only, until the task's thread has it in its inbox: scope/share.c. */
struct sti_share {
    struct sti_group *group;
    struct sti_thread *thread;
    struct sti_share *next;           /* of the group; set once */
    struct sti_share *next_of_thread; /* that the thread keeps */
    struct sti_share *next_in_inbox;
    struct sti_heap *heaps;    /* that stolen subtasks left here; while one runs they are its scope's; */
    struct sti_mapped *mapped; /* so with what they have mapped */
    uint64_t used;             /* what the group knows that it has charged */
    size_t held;               /* and held when it was measured last, */
    size_t wanted;             /* with a block that may not have been made yet, */
    size_t bound;              /* and may hold now at most */
    uint64_t measured_at;      /* the thread's used */
    unsigned asked;            /* the group's, before it was measured */
    uint64_t account_reserved; /* for its heaps while nothing runs here */
    bool runs;                 /* a stolen subtask */
    bool commits;              /* what was decided */
};

struct sti_group {
    const struct sti_scope_request *request; /* of the task's own scope, while that is open */
    const char *task;                        /* its name: behind the group, as shares outlive the task; may be NULL */
    struct sti_thread *thread;
    struct sti_share *own;
    uint64_t deadline;
    _Atomic uint64_t allocation_limit; /* 0: none. This and the next one: relaxed */
    _Atomic size_t memory_limit;       /* 0: none */

    atomic_uint references; /* the scope's and one of each share on the list */
    _Atomic(struct sti_share *) shares;
    struct sti_undo_log *undo; /* what stolen subtasks which have ended left to do: rollback/undo.h */
    struct sti_shared_interrupt interrupt;

    /* What shared_budget.c explains. */
    _Alignas(64) _Atomic uint64_t used;
    _Atomic uint64_t granted;

    /* What shared_budget.c explains. */
    _Alignas(64) atomic_size_t held;
    atomic_size_t bound;
    atomic_size_t peak;
    atomic_uint asked;

    /* Sums of what shares that have ended had. */
    _Atomic uint64_t account_reserved;
    _Atomic uint64_t samples;
    _Atomic uint64_t deferred;
    _Atomic uint64_t cpu; /* nanoseconds, where they are limited */
};

/* --- Interrupts. Any thread of the group. --- */

/* Trip it unless it is already. Returns the present reason. */
static inline stint_reason sti_group_trip(struct sti_group *group, stint_reason reason)
{
    return sti_interrupt_trip_shared(&group->interrupt, reason);
}

static inline stint_reason sti_group_tripped(struct sti_group *group)
{
    return atomic_load_explicit(&group->interrupt.tripped, memory_order_seq_cst);
}

/* --- The budget. Thread of the share; scope is its outermost. --- */

/* The share of the outermost scope around this one that charges it; NULL: its task shares nothing. */
struct sti_share *sti_group_member(const struct sti_scope *innermost);

static inline uint64_t sti_group_allocation_limit(const struct sti_group *group)
{
    return atomic_load_explicit(&group->allocation_limit, memory_order_relaxed);
}

/* The limits of the task have been changed to these. By each of its shares. */
void sti_group_take_limits(struct sti_share *share, struct sti_scope *scope, uint64_t allocation, size_t memory);

/* The share begins to charge, with nothing granted; it has charged so much in this scope, and ends. */
void sti_group_begin(struct sti_share *share, struct sti_scope *scope);
void sti_group_settle(struct sti_share *share, struct sti_scope *scope);

/* Draw what has to be granted for the thread's used to become after. False: the task has exhausted its allocation
 * limit. */
bool sti_group_draw(struct sti_share *share, struct sti_scope *scope, uint64_t after);

/* --- The memory limit. Thread of the share. --- */

/* The share is about to be measured, as it has been asked to until now. */
static inline void sti_group_note_asked(struct sti_share *share)
{
    share->asked = atomic_load_explicit(&share->group->asked, memory_order_acquire);
}

/* The share has been measured: it holds so much, and wants so much more. False: the task would pass its memory
 * limit. */
bool sti_group_hold(struct sti_share *share, size_t held, size_t wanted);

/* The share is given a block of so many bytes: its task's peak counts that, too. */
void sti_group_granted(struct sti_share *share, size_t block);

/* The share was not given what it wanted. */
void sti_group_hold_no_more(struct sti_share *share);

/* In a sample point that would take the thread's used to after: whether what it holds must be measured now. */
bool sti_group_must_measure(struct sti_share *share, uint64_t after);

/* The limit is about to be called passed: have the others measured; then let them run for a turn, after which the share
 * looks again. False: that has been enough. */
void sti_group_ask_others(struct sti_group *group);
bool sti_group_let_others_run(struct sti_group *group, unsigned turn);

/* Whether another has asked it to be measured, and it has not been. */
bool sti_group_is_asked(const struct sti_share *share);

/* If it has: while nothing runs there; and while this scope waits there for a subtask. */
void sti_group_answer_idle(struct sti_share *share);
void sti_group_answer_waiting(struct sti_share *share, struct sti_scope *innermost);

#endif
