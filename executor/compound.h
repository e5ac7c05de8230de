/* SPDX-License-Identifier: MIT
 *
 * Compound futures: when all of some futures have resolved, or any of them. One block of memory: a task without a
 * function, with a follower on each of its members.
 *
 * References: one for the caller; one for each member that has not resolved, whose follower lies in the block. The
 * members are kept until the block goes. So a compound future of any is resolved long before its block can go, if one of
 * its members takes long.
 *
 * Any thread. */
#ifndef STI_EXECUTOR_COMPOUND_H
#define STI_EXECUTOR_COMPOUND_H

#include "follow.h"
#include "task.h"

struct sti_member {
    struct sti_follower follower;
    struct sti_compound *compound;
};

struct sti_compound {
    sti_task future;
    bool any;
    atomic_bool decided; /* any: a member has resolved */
    atomic_bool cancelled;
    atomic_size_t outstanding; /* members that have not resolved */
    size_t winner;             /* any: once it has resolved */
    struct sti_follower cancelling;
    size_t count;
    struct sti_member members[];
};

/* How far a look goes into compounds of compounds. Their members may be shared, so the ways through them may be
 * exponentially many: a look ends after so many compounds, and takes what lies beyond for nothing it could help with. */
#define STI_LOOK_DEPTH 64
#define STI_LOOK_COMPOUNDS 4096

struct sti_look {
    unsigned depth;
    unsigned entered;
};

/* False: no further. */
static inline bool sti_look_enter(struct sti_look *look)
{
    if (look->depth == STI_LOOK_DEPTH || look->entered == STI_LOOK_COMPOUNDS)
        return false;
    look->depth++;
    look->entered++;
    return true;
}

static inline void sti_look_leave(struct sti_look *look)
{
    look->depth--;
}

static inline struct sti_compound *sti_compound_of(sti_task *task)
{
    return (struct sti_compound *)task;
}

static inline sti_task *sti_compound_member(const struct sti_compound *compound, size_t index)
{
    return compound->members[index].follower.task;
}

/* Cancel its members. */
void sti_compound_cancel(sti_task *task);

/* Nobody refers to it any more. */
void sti_compound_free(sti_task *task);

#endif
