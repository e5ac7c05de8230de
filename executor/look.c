/* SPDX-License-Identifier: MIT
 *
 * Looking along what waits for what; see look.h. */
#include "look.h"

#include "alloc/process.h"
#include "compound.h"
#include "delays.h"

static bool look_at_members(struct sti_look *look, const struct sti_compound *compound)
{
    bool every = look->every && compound->any;
    bool is_it = every;
    for (size_t i = 0; i < compound->count && is_it == every; i++)
        is_it = sti_look_at(look, sti_compound_member(compound, i));
    return is_it;
}

/* Of one that resolves by hand. */
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

/* It and what it waits for, which is retained meanwhile. */
static bool look_at_delayed(struct sti_look *look, sti_task *task)
{
    if (look->is_it(look, task))
        return true;
    if (!sti_look_enter(look))
        return look->beyond;
    sti_task *awaited = sti_delayed_awaited(task);
    bool is_it = awaited != NULL && sti_look_at(look, awaited);
    if (awaited != NULL)
        sti_task_release(awaited);
    sti_look_leave(look);
    return is_it;
}

bool sti_look_at(struct sti_look *look, sti_task *task)
{
    if (sti_task_is_compound(task))
        return look_at_compound(look, sti_compound_of(task));
    return sti_task_is_delayed(task) ? look_at_delayed(look, task) : look->is_it(look, task);
}
