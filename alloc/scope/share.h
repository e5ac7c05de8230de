/* SPDX-License-Identifier: MIT
 *
 * The shares of groups (shared_budget.h) that threads keep: the heaps and mappings that stolen subtasks left there
 * until the task's outcome is known. For the groups' scopes (subtask.c) and the ends of threads. Calling thread only,
 * unless a function says otherwise. */
#ifndef STI_ALLOC_SCOPE_SHARE_H
#define STI_ALLOC_SCOPE_SHARE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "alloc/platform/thread.h"

struct sti_group;
struct sti_share;

/* The calling thread's share of the group, made if it has none that is free; runs is set. NULL: no memory. */
struct sti_share *sti_share_take(struct sti_group *group, struct sti_thread *thread);

/* The task has ended, and no thread but this one uses the group. Let the shares' threads commit or roll back. */
void sti_share_decide(struct sti_group *group, bool commits);

/* Carry out what has been decided (sti_subtask_collect). */
void sti_share_collect(struct sti_thread *thread);

static inline bool sti_share_has_inbox_entries(struct sti_thread *thread)
{
    return __builtin_expect(atomic_load_explicit(&thread->inbox, memory_order_relaxed) != NULL, 0);
}

/* The task's own scope, or a share, lets go of the group: the last one frees it. Any thread. */
void sti_group_release(struct sti_group *group);

/* A thread has taken this record, or has none (NULL): its end is to be told. */
void sti_share_thread_taken(struct sti_thread *thread);

/* At start. */
void sti_share_start(void);

#endif
