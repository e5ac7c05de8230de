/* SPDX-License-Identifier: MIT
 *
 * Futures of several others, and looking along what waits for what; see compound.h. Any thread. */
#include "compound.h"

#include <errno.h>
#include <stint/future.h>

#include "alloc/meter/allocate.h"
#include "alloc/platform/process.h"
#include "delays.h"
#include "task.h"

/* --- Compound futures. Any thread.
 *
 * Compounds of compounds may be nested as deep as a program likes: resolving and cancelling go through the queue of
 * continuations (continuation.h), freeing through a list. None of them calls itself. */

void sti_compound_add_usage(stint_usage *sum, const stint_usage *usage)
{
    sum->allocated += usage->allocated;
    sum->samples += usage->samples;
    sum->deferred += usage->deferred;
    sum->kept += usage->kept;
    sum->committed += usage->committed;
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
        const stint_outcome *member = &sti_compound_member(compound, i)->outcome;
        if (outcome.status == STINT_OK && member->status != STINT_OK)
            outcome = *member;
        sti_compound_add_usage(&sum, &member->usage);
    }
    outcome.usage = sum;
    return outcome;
}

/* --- Members leave ------------------------------------------------------------------------------------------------ */

static void give_back_attached(struct sti_compound *compound, size_t count)
{
    /* acq_rel: the thread that ends it sees what the others have done with it. */
    if (count > 0 && atomic_fetch_sub_explicit(&compound->attached, count, memory_order_acq_rel) == count)
        sti_compound_release(&compound->future);
}

static bool compound_detach(struct sti_compound *compound, size_t index)
{
    return sti_continuation_remove(&compound->members[index].continuation) == 0;
}

/* The caller has a reference, or an attached member of its own. */
static void detach_all(struct sti_compound *compound)
{
    size_t count = 0;
    for (size_t i = 0; i < compound->count; i++)
        count += compound_detach(compound, i);
    give_back_attached(compound, count);
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

static void member_of_any_resolved(struct sti_compound *compound, const struct sti_share *member)
{
    /* relaxed: the exchange only decides which member wins. A member that is being attached meanwhile sees it all the
     * same: detach takes the lock of that member's list before it finds nothing there, and the thread that puts the
     * member on the list afterwards looks again. */
    if (atomic_exchange_explicit(&compound->decided, true, memory_order_relaxed))
        return;
    compound->winner = (size_t)(member - compound->members);
    compound->future.outcome = member->continuation.task->outcome;
    detach_all(compound);
    sti_task_resolve(&compound->future);
}

static void compound_member_resolved(struct sti_continuation *continuation)
{
    struct sti_share *member = (struct sti_share *)continuation;
    struct sti_compound *compound = member->compound;
    if (compound->any)
        member_of_any_resolved(compound, member);
    else
        member_of_all_resolved(compound);
    give_back_attached(compound, 1);
}

/* --- Making ------------------------------------------------------------------------------------------------------- */

/* No overflow: an array of so many pointers is in memory already. */
static size_t compound_size(size_t count)
{
    return sizeof(struct sti_compound) + count * sizeof(struct sti_share);
}

struct sti_compound *sti_compound_create(bool any, size_t count, size_t size)
{
    struct sti_compound *compound = sti_process_calloc(1, size);
    if (compound == NULL)
        return NULL;
    atomic_init(&compound->future.state, STI_TASK_CLAIMED);
    atomic_init(&compound->future.references, 1 + (count > 0));
    sti_token_init(&compound->future.token, NULL);
    compound->any = any;
    atomic_init(&compound->decided, false);
    atomic_init(&compound->cancelled, false);
    atomic_init(&compound->outstanding, count);
    atomic_init(&compound->attached, count);
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

/* All members are attached from now on, one after the other; or, of any, until one has decided. */
static void attach_all(struct sti_compound *compound)
{
    size_t attached = 0;
    bool decided = false;
    while (attached < compound->count && !decided) {
        sti_continuation_add(&compound->members[attached++].continuation);
        decided = atomic_load_explicit(&compound->decided, memory_order_relaxed);
    }
    size_t left = compound->count - attached;
    if (decided && compound_detach(compound, attached - 1))
        left++;
    give_back_attached(compound, left);
}

static int compound_combine(bool any, stint_future *const *futures, size_t count, stint_future **future,
                            const void *caller)
{
    if (future != NULL)
        *future = NULL;
    if (sti_process_is_partial())
        return ENOTSUP;
    if (future == NULL || (any && count == 0) || !all_are_futures(futures, count))
        return EINVAL;
    if (!sti_record_charge(compound_size(count), caller))
        return ENOMEM;
    struct sti_compound *compound = sti_compound_create(any, count, compound_size(count));
    if (compound == NULL)
        return ENOMEM;
    *future = &compound->future;
    /* All are members before the first of them is told: the outcome looks at them all. */
    for (size_t i = 0; i < count; i++) {
        sti_task_retain(futures[i]);
        compound->members[i] = (struct sti_share){
            .continuation = { .task = futures[i], .run = compound_member_resolved },
            .compound = compound,
        };
    }
    attach_all(compound);
    if (count == 0) {
        compound->future.outcome = outcome_of_all(compound);
        sti_task_resolve(&compound->future);
    }
    return 0;
}

int stint_when_all(stint_future *const *futures, size_t count, stint_future **all)
{
    return compound_combine(false, futures, count, all, STI_CALLER());
}

int stint_when_any(stint_future *const *futures, size_t count, stint_future **any)
{
    return compound_combine(true, futures, count, any, STI_CALLER());
}

int stint_when_any_index(const stint_future *any, size_t *index)
{
    if (sti_process_is_partial())
        return ENOTSUP;
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

static void cancel_members(struct sti_queued_turn *turn)
{
    const struct sti_compound *compound = sti_compound_of(turn->task);
    for (size_t i = 0; i < compound->count; i++)
        stint_future_cancel(sti_compound_member(compound, i));
}

void sti_compound_cancel(sti_task *task)
{
    struct sti_compound *compound = sti_compound_of(task);
    if (atomic_exchange_explicit(&compound->cancelled, true, memory_order_relaxed))
        return;
    sti_continuation_now(task, &compound->cancelling, compound->cancel != NULL ? compound->cancel : cancel_members);
}

/* Give one back unless it is the last, or the last but that of the attached members. */
static bool give_back_one_of_many(sti_task *task)
{
    unsigned references = atomic_load_explicit(&task->references, memory_order_relaxed);
    while (references > 2) {
        if (atomic_compare_exchange_weak_explicit(&task->references, &references, references - 1, memory_order_acq_rel,
                                                  memory_order_relaxed))
            return true;
    }
    return false;
}

/* True: it was the last one. */
static bool compound_give_back(sti_task *task)
{
    if (give_back_one_of_many(task))
        return false;
    /* If it has not resolved, the owner of this reference is the last one that could look at it, or have anything
     * follow. */
    if (!sti_task_is_resolved(task) && !sti_continuation_is_followed(task))
        detach_all(sti_compound_of(task));
    return sti_task_give_back(task);
}

/* Compounds that nobody refers to are linked by arg, which they have no other use for. */
void sti_compound_release(sti_task *task)
{
    sti_task *unreferenced = NULL;
    if (compound_give_back(task)) {
        task->arg = NULL;
        unreferenced = task;
    }
    while (unreferenced != NULL) {
        struct sti_compound *compound = sti_compound_of(unreferenced);
        unreferenced = compound->future.arg;
        for (size_t i = 0; i < compound->count; i++) {
            sti_task *member = sti_compound_member(compound, i);
            if (!sti_task_is_compound(member)) {
                sti_task_release(member);
            } else if (compound_give_back(member)) {
                member->arg = unreferenced;
                unreferenced = member;
            }
        }
        if (compound->owns_payload)
            sti_process_free((void *)(uintptr_t)compound->future.outcome.payload);
        stint_report_release(compound->future.report);
        sti_process_free(compound);
    }
}

/* --- Looking along what waits for what. --- */

static bool look_at_members(struct sti_look *look, const struct sti_compound *compound)
{
    bool every = look->every && compound->any;
    bool is_it = every;
    for (size_t i = 0; i < compound->count && is_it == every; i++)
        is_it = sti_look_at(look, sti_compound_member(compound, i));
    return is_it;
}

/* Look at the tasks that a compound which resolves by hand waits for. */
static bool look_at_awaited(struct sti_look *look, struct sti_compound *compound)
{
    size_t count = 0;
    sti_task **awaited = compound->awaited(compound, &count);
    bool is_it = false;
    for (size_t i = 0; i < count; i++) {
        is_it = is_it || sti_look_at(look, awaited[i]);
        sti_task_release(awaited[i]);
    }
    sti_process_free(awaited);
    return is_it;
}

static bool look_at_compound(struct sti_look *look, struct sti_compound *compound)
{
    if (sti_task_is_resolved(&compound->future))
        return false;
    if (!sti_look_enter(look))
        return look->beyond;
    bool is_it = false;
    if (compound->count > 0)
        is_it = look_at_members(look, compound);
    else if (compound->awaited != NULL)
        is_it = look_at_awaited(look, compound);
    sti_look_leave(look);
    return is_it;
}

static bool may_look_further(struct sti_look *look)
{
    if (look->entered == STI_LOOK_FUTURES)
        return false;
    look->entered++;
    return true;
}

static void compound_let_go(sti_task *task)
{
    if (task != NULL)
        sti_task_release(task);
}

/* Look at a delayed task and at what it waits for, which is retained meanwhile. A chain of them may be of any
 * length. */
static bool look_at_delayed(struct sti_look *look, sti_task *task)
{
    sti_task *held = NULL;
    bool is_it = false;
    while (task != NULL && sti_task_is_delayed(task) && !(is_it = look->is_it(look, task))) {
        if (!may_look_further(look)) {
            compound_let_go(held);
            return look->beyond;
        }
        task = sti_delayed_awaited(task);
        compound_let_go(held);
        held = task;
    }
    if (task != NULL && !is_it)
        is_it = sti_look_at(look, task);
    compound_let_go(held);
    return is_it;
}

bool sti_look_at(struct sti_look *look, sti_task *task)
{
    if (sti_task_is_compound(task))
        return look_at_compound(look, sti_compound_of(task));
    return sti_task_is_delayed(task) ? look_at_delayed(look, task) : look->is_it(look, task);
}
