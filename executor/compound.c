/* SPDX-License-Identifier: MIT
 *
 * Compound futures; see compound.h. Any thread.
 *
 * Compounds of compounds may be nested as deep as a program likes: resolving and cancelling go through the line of
 * followers (follow.h), freeing through a list. None of them calls itself. */
#include "compound.h"

#include <errno.h>
#include <stint/future.h>
#include <string.h>

#include "alloc/process.h"
#include "alloc/scope.h"
#include "pools.h"

static sti_task *member_of(const struct sti_compound *compound, size_t index)
{
    return compound->members[index].follower.task;
}

static void add_usage(stint_usage *sum, const stint_usage *usage)
{
    sum->allocated += usage->allocated;
    sum->samples += usage->samples;
    sum->deferred += usage->deferred;
    sum->kept += usage->kept;
    sum->descriptors += usage->descriptors;
    sum->cpu_ns += usage->cpu_ns;
    sum->peak = usage->peak > sum->peak ? usage->peak : sum->peak;
    sum->wall_ns = usage->wall_ns > sum->wall_ns ? usage->wall_ns : sum->wall_ns;
    sum->queued_ns = usage->queued_ns > sum->queued_ns ? usage->queued_ns : sum->queued_ns;
}

/* Ok, or what the first member says that is not. */
static stint_outcome outcome_of_all(const struct sti_compound *compound)
{
    stint_outcome outcome = { .status = STINT_OK };
    stint_usage sum = { 0 };
    for (size_t i = 0; i < compound->count; i++) {
        const stint_outcome *member = &member_of(compound, i)->outcome;
        if (outcome.status == STINT_OK && member->status != STINT_OK)
            outcome = *member;
        add_usage(&sum, &member->usage);
    }
    outcome.usage = sum;
    return outcome;
}

/* --- Members resolve ---------------------------------------------------------------------------------------------- */

static void member_of_all_resolved(struct sti_compound *compound)
{
    /* acq_rel: the last one sees the outcomes of those before it. */
    if (atomic_fetch_sub_explicit(&compound->outstanding, 1, memory_order_acq_rel) > 1)
        return;
    compound->future.outcome = outcome_of_all(compound);
    sti_task_resolve(&compound->future);
}

static void member_of_any_resolved(struct sti_compound *compound, const struct sti_member *member)
{
    /* relaxed: it only decides who. */
    if (atomic_exchange_explicit(&compound->decided, true, memory_order_relaxed))
        return;
    compound->winner = (size_t)(member - compound->members);
    compound->future.outcome = member->follower.task->outcome;
    sti_task_resolve(&compound->future);
}

static void member_resolved(struct sti_follower *follower)
{
    struct sti_member *member = (struct sti_member *)follower;
    struct sti_compound *compound = member->compound;
    if (compound->any)
        member_of_any_resolved(compound, member);
    else
        member_of_all_resolved(compound);
    sti_task_release(&compound->future);
}

/* --- Making ------------------------------------------------------------------------------------------------------- */

static struct sti_compound *make_compound(bool any, size_t count)
{
    /* No overflow: an array of so many pointers is in memory already. */
    struct sti_compound *compound = sti_process_malloc(sizeof *compound + count * sizeof *compound->members);
    if (compound == NULL)
        return NULL;
    memset(&compound->future, 0, sizeof compound->future);
    atomic_init(&compound->future.state, STI_TASK_CLAIMED);
    atomic_init(&compound->future.references, 1);
    atomic_init(&compound->future.followers, 0);
    compound->future.generation = sti_pools_generation;
    atomic_init(&compound->future.bell, 0);
    sti_token_init(&compound->future.token, NULL);
    compound->any = any;
    atomic_init(&compound->decided, false);
    atomic_init(&compound->cancelled, false);
    atomic_init(&compound->outstanding, count);
    compound->winner = 0;
    compound->count = count;
    return compound;
}

static bool all_are_futures(stint_future *const *futures, size_t count)
{
    if (futures == NULL && count > 0)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (futures[i] == NULL)
            return false;
    }
    return true;
}

static int combine(bool any, stint_future *const *futures, size_t count, stint_future **future)
{
    if (future == NULL || !all_are_futures(futures, count))
        return EINVAL;
    struct sti_compound *compound = make_compound(any, count);
    if (compound == NULL)
        return ENOMEM;
    *future = &compound->future;
    /* All are members before the first of them is told: the outcome looks at them all. */
    for (size_t i = 0; i < count; i++) {
        sti_task_retain(futures[i]);
        compound->members[i] = (struct sti_member){
            .follower = { .task = futures[i], .run = member_resolved },
            .compound = compound,
        };
    }
    for (size_t i = 0; i < count; i++) {
        sti_task_retain(&compound->future);
        sti_follow(futures[i], &compound->members[i].follower);
    }
    if (count == 0) {
        compound->future.outcome = outcome_of_all(compound);
        sti_task_resolve(&compound->future);
    }
    return 0;
}

int stint_when_all(stint_future *const *futures, size_t count, stint_future **all)
{
    return combine(false, futures, count, all);
}

int stint_when_any(stint_future *const *futures, size_t count, stint_future **any)
{
    return count == 0 ? EINVAL : combine(true, futures, count, any);
}

int stint_when_any_index(const stint_future *any, size_t *index)
{
    if (any == NULL || index == NULL || !sti_task_is_compound(any))
        return EINVAL;
    const struct sti_compound *compound = (const struct sti_compound *)any;
    if (!compound->any)
        return EINVAL;
    if (!sti_task_is_resolved(any))
        return EAGAIN;
    *index = compound->winner;
    return 0;
}

/* --- Cancelling, freeing ------------------------------------------------------------------------------------------ */

static void cancel_members(struct sti_follower *follower)
{
    const struct sti_compound *compound = sti_compound_of(follower->task);
    for (size_t i = 0; i < compound->count; i++)
        stint_future_cancel(member_of(compound, i));
}

void sti_compound_cancel(sti_task *task)
{
    struct sti_compound *compound = sti_compound_of(task);
    if (atomic_exchange_explicit(&compound->cancelled, true, memory_order_relaxed))
        return;
    compound->cancelling.run = cancel_members;
    sti_follow_now(task, &compound->cancelling);
}

void sti_compound_free(sti_task *task)
{
    /* Linked by arg, which a compound has no other use for. */
    sti_task *unreferenced = task;
    task->arg = NULL;
    while (unreferenced != NULL) {
        struct sti_compound *compound = sti_compound_of(unreferenced);
        unreferenced = compound->future.arg;
        for (size_t i = 0; i < compound->count; i++) {
            sti_task *member = member_of(compound, i);
            if (!sti_task_give_back(member))
                continue;
            if (sti_task_is_compound(member)) {
                member->arg = unreferenced;
                unreferenced = member;
            } else {
                sti_task_free(member);
            }
        }
        sti_process_free(compound);
    }
}
