/* SPDX-License-Identifier: MIT
 *
 * Futures of several others, and looking along what waits for what. Any thread. */
#ifndef STI_EXECUTOR_TASK_COMPOUND_H
#define STI_EXECUTOR_TASK_COMPOUND_H

#include <stdbool.h>
#include <stddef.h>

#include "continuation.h"
#include "executor/base/state.h"

/* --- Compound futures: when all of some futures have resolved, or any of them. One block of memory: a task without a
 * function, with a continuation on each of its members.
 *
 * A member is attached from the moment at which its continuation is on its list until that has been run, or taken off
 * again. References: one for the caller; one for each compound future that it is a member of; one for all members that
 * are attached, together: attached counts these, and the thread that brings the count to 0 gives that reference back.
 * The members are kept until the block goes.
 *
 * What nobody needs any more leaves its members, so that nothing of it stays with one that lives long: of any, when one
 * member has decided; and when all references but that of the attached ones have gone, and nothing is to follow.
 *
 * Any thread. */

struct sti_share {
    struct sti_continuation continuation;
    struct sti_compound *compound;
};

struct sti_compound {
    sti_task future;
    bool any;
    bool owns_payload;   /* of its outcome: it is no member's */
    atomic_bool decided; /* any: a member has resolved */
    atomic_bool cancelled;
    atomic_size_t outstanding; /* all: members that have not resolved */
    atomic_size_t attached;
    size_t winner; /* any: once it has resolved */
    struct sti_queued_turn cancelling;
    void (*cancel)(struct sti_queued_turn *turn); /* in place of cancelling its members; or NULL */
    /* For a compound without members: returns the tasks that have to end before it resolves, each retained, in an array
     * that the caller frees as well; NULL: none, or no memory. The pointer may be NULL. */
    sti_task **(*awaited)(struct sti_compound *compound, size_t *count);
    size_t count;
    struct sti_share members[];
};

static inline struct sti_compound *sti_compound_of(sti_task *task)
{
    return (struct sti_compound *)task;
}

static inline sti_task *sti_compound_member(const struct sti_compound *compound, size_t index)
{
    return compound->members[index].continuation.task;
}

/* Make a compound without members yet, at the beginning of a block of so many bytes, all zero, with one reference for
 * the caller; with a count of 0 its owner resolves it. NULL: no memory. */
struct sti_compound *sti_compound_create(bool any, size_t count, size_t size);

void sti_compound_add_usage(stint_usage *sum, const stint_usage *usage);

/* Cancel its members. */
void sti_compound_cancel(sti_task *task);

/* Give a reference back. */
void sti_compound_release(sti_task *task);

/* --- Looking along what waits for what: from a future to the tasks that have to end before it resolves. Through
 * compound futures to their members; through the future of a group's idleness to the group's tasks, and that of a
 * series to the present turn; through a task that is delayed until another has ended to that one. The one that looks
 * asks one question about each task.
 *
 * What a look goes through may be shared, so the ways through it may be exponentially many: a look ends after so many
 * futures, and so deep.
 *
 * Any thread, also under the lock of deadlock.h: what is looked at is under locks of its own, under
 * which nobody takes that. */

#define STI_LOOK_DEPTH 64
#define STI_LOOK_FUTURES 4096

struct sti_look {
    /* The question, about a task that is no compound. */
    bool (*is_it)(struct sti_look *look, sti_task *task);
    bool every;  /* of the first of some: whether it is so of each of them, and not of one */
    bool beyond; /* what to take for the answer about what lies too far */
    unsigned depth;
    unsigned entered;
};

/* Whether it is so of one of the tasks that have to end before this one has, or of itself. The caller keeps it. */
bool sti_look_at(struct sti_look *look, sti_task *task);

/* For callers that look by themselves. False: no further. */
static inline bool sti_look_enter(struct sti_look *look)
{
    if (look->depth == STI_LOOK_DEPTH || look->entered == STI_LOOK_FUTURES)
        return false;
    look->depth++;
    look->entered++;
    return true;
}

static inline void sti_look_leave(struct sti_look *look)
{
    look->depth--;
}

#endif
