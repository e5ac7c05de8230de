/* SPDX-License-Identifier: MIT
 *
 * Compound futures: when all of some futures have resolved, or any of them. One block of memory: a task without a
 * function, with a follower on each of its members.
 *
 * A member is attached from the moment at which its follower is on its list until that has been run, or taken off
 * again. References: one for the caller; one for each compound future that it is a member of; one for all members that
 * are attached, together: attached counts these, and whoever brings it to 0 gives that reference back. The members are
 * kept until the block goes.
 *
 * What nobody needs any more leaves its members, so that nothing of it stays with one that lives long: of any, when one
 * member has decided; and when all references but that of the attached ones have gone, and nothing is to follow.
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
    bool owns_payload; /* of its outcome: it is no member's */
    atomic_bool decided; /* any: a member has resolved */
    atomic_bool cancelled;
    atomic_size_t outstanding; /* all: members that have not resolved */
    atomic_size_t attached;
    size_t winner; /* any: once it has resolved */
    struct sti_line_turn cancelling;
    void (*cancel)(struct sti_line_turn *turn); /* in place of cancelling its members; or NULL */
    /* Of one without members: the tasks that have to end before it resolves, each retained, in an array that the caller
     * frees as well; NULL: none, or no memory. Or NULL. */
    sti_task **(*awaited)(struct sti_compound *compound, size_t *count);
    size_t count;
    struct sti_member members[];
};

static inline struct sti_compound *sti_compound_of(sti_task *task)
{
    return (struct sti_compound *)task;
}

static inline sti_task *sti_compound_member(const struct sti_compound *compound, size_t index)
{
    return compound->members[index].follower.task;
}

/* One without members yet, at the beginning of a block of so many bytes, all zero, with one reference for the caller;
 * with a count of 0 its owner resolves it. NULL: no memory. */
struct sti_compound *sti_compound_create(bool any, size_t count, size_t size);

void sti_compound_add_usage(stint_usage *sum, const stint_usage *usage);

/* Cancel its members. */
void sti_compound_cancel(sti_task *task);

/* Give a reference back. */
void sti_compound_release(sti_task *task);

#endif
