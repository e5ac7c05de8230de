/* SPDX-License-Identifier: MIT
 *
 * The split deque: the outstanding forks of one thread, oldest first. Its owner adds and removes at the newest end,
 * where nothing is shared; the oldest part is public, and any other thread steals there. Fixed capacity, no allocation,
 * no lock. Protocol and memory orders: split.c. */
#ifndef STI_EXECUTOR_BASE_SPLIT_H
#define STI_EXECUTOR_BASE_SPLIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/fork.h>

#define STI_SPLIT_CAPACITY STINT_FORK_SLOTS_
#define STI_SPLIT_BOTTOM(split) ((size_t)(uintptr_t)(split)->forks.slots) /* depth when there are no forks */

struct sti_group;
struct sti_worker;

/* A slot that is public or stolen, as its thief sees it. A plain fork's subtask is in a frame that its thief never
 * touches: a function may have returned without joining what it forked. A typed fork's payload is its thief's, too.
 *
 *   SHARED    written by the owner, before the slot becomes public.
 *   ENDED     by the thief, after value, code and interrupted. Release: the owner, which waits for it (acquire), reads
 *             them and all that the subtask wrote. From then on the slot is the owner's. */
enum sti_offer_state { STI_OFFER_SHARED, STI_OFFER_ENDED };

struct sti_offer {
    stint_fn *fn;
    void *arg;
    _Atomic(struct sti_group *) group;
    const void *task;                   /* that it is a part of */
    _Atomic(struct sti_worker *) thief; /* NULL: none yet. For other workers: where to steal, and what the owner waits
                                           for. Release; acquire, or relaxed only to compare */
    atomic_int state;
    int code;
    bool interrupted;
    void *value;
};

struct sti_split {
    struct stint_forks_ forks; /* what the inline functions work on */
    size_t split;              /* the owner's knowledge of bounds */
    size_t base;               /* slots below are of a task that waits below the running one */
    size_t holes;              /* slots of forks that were joined before newer ones */
    const void *task;          /* that the forks which are shared now are parts of */
    _Alignas(64) _Atomic uint64_t bounds;
    struct sti_offer offers[STI_SPLIT_CAPACITY];
};

void sti_split_init(struct sti_split *split);

/* A place is the address of a slot, an index counts slots. */
static inline size_t sti_split_place(const struct sti_split *split, size_t index)
{
    return (size_t)(uintptr_t)&split->forks.slots[index];
}

static inline size_t sti_split_index(const struct sti_split *split, size_t place)
{
    return (place - STI_SPLIT_BOTTOM(split)) / sizeof(struct stint_fork_slot_);
}

/* How many slots are outstanding forks, or holes. */
static inline size_t sti_split_depth(const struct sti_split *split)
{
    return sti_split_index(split, split->forks.depth);
}

/* --- The owner ---------------------------------------------------------------------------------------------------- */

/* The slot of the next fork, to be written. NULL: full. */
struct stint_fork_slot_ *sti_split_free_slot(struct sti_split *split);

/* The slot has been written: add the fork, whether a thief has asked or not. Returns the fork's place. */
size_t sti_split_push(struct sti_split *split);

/* Whether somebody has asked for work since sti_split_share shared something. */
bool sti_split_is_asked(const struct sti_split *split);

/* Where nothing is public, make the older half of the private forks below this index so, at least one. True: something
 * is public now, and a thief that had asked is answered. False: there is nothing to share. */
bool sti_split_share(struct sti_split *split, size_t end, struct sti_group *group);

/* Make all private forks public that have no hole before them: their owner is about to sleep. True: something is public
 * now that was not. */
bool sti_split_share_all(struct sti_split *split, struct sti_group *group);

/* Whether at this place there is a fork of the running task, and it is this one (stint_fork_slot_). */
bool sti_split_holds(const struct sti_split *split, size_t place, const void *fork);

/* Whether it is a typed one; then the stack pointer of the frame that made it. Otherwise its subtask's address. */
bool sti_split_is_typed(const struct sti_split *split, size_t index);
uintptr_t sti_split_frame(const struct sti_split *split, size_t index);

/* Take the fork with this index back, to run or to drop it. False: a thief has it. */
bool sti_split_take(struct sti_split *split, size_t index);

/* A fork that a thief had has ended: its slot is free. */
void sti_split_forget(struct sti_split *split, size_t index);

/* A task begins on top of one that waits: until it has ended, the other's forks are out of everybody's sight. */
struct sti_split_below {
    uint64_t bounds;
    size_t base;
    size_t holes;
};
struct sti_split_below sti_split_enter(struct sti_split *split);
void sti_split_leave(struct sti_split *split, struct sti_split_below below);

/* --- Any other thread --------------------------------------------------------------------------------------------- */

/* The oldest public fork, if it is of this group or that is NULL. NULL: there is none. */
struct sti_offer *sti_split_steal(struct sti_split *split, const struct sti_group *group);

/* Ask for work: the owner's next fork or join looks. */
void sti_split_ask(struct sti_split *split);

/* Whether something is public; and whether the oldest of it is of this group. Guesses unless the caller has ordered
 * them against sti_split_share with a fence. */
bool sti_split_is_public(const struct sti_split *split);
bool sti_split_offers(const struct sti_split *split, const struct sti_group *group);

#endif
