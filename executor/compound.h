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

static inline struct sti_compound *sti_compound_of(sti_task *task)
{
    return (struct sti_compound *)task;
}

/* Cancel its members. */
void sti_compound_cancel(sti_task *task);

/* Nobody refers to it any more. */
void sti_compound_free(sti_task *task);

#endif
