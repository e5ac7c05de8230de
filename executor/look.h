/* SPDX-License-Identifier: MIT
 *
 * Looking along what waits for what: from a future to the tasks that have to end before it resolves. Through compound
 * futures to their members; through the future of a group's idleness to the group's tasks, and that of a series to the
 * present turn; through a task that is delayed until another has ended to that one. Who has a look asks one question
 * about each task.
 *
 * What a look goes through may be shared, so the ways through it may be exponentially many: a look ends after so many
 * futures, and so deep.
 *
 * Any thread, also under the locks of rescue.h and deadlock.h: what is looked at is under locks of its own, under which
 * nobody takes those. */
#ifndef STI_EXECUTOR_LOOK_H
#define STI_EXECUTOR_LOOK_H

#include <stdbool.h>
#include <stddef.h>

#include "task.h"

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

/* For those who look by themselves. False: no further. */
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
