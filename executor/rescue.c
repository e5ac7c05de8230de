/* SPDX-License-Identifier: MIT
 *
 * Errands for threads that all wait; see rescue.h. Under the lock of the pool's spares. */
#include "rescue.h"

#include <stddef.h>

#include "compound.h"
#include "follow.h"
#include "pool_state.h"
#include "split.h"
#include "worker.h"

/* A task of the pool's that nobody has begun, and that the awaited one waits for. */
static sti_task *find_unbegun(const stint_pool *pool, sti_task *awaited, struct sti_look *look)
{
    if (!sti_task_is_compound(awaited))
        return awaited->pool == pool && sti_task_is_queued(awaited) ? awaited : NULL;
    sti_task *found = NULL;
    const struct sti_compound *compound = sti_compound_of(awaited);
    if (sti_task_is_resolved(awaited) || !sti_look_enter(look))
        return NULL;
    for (size_t i = 0; i < compound->count && found == NULL; i++)
        found = find_unbegun(pool, sti_compound_member(compound, i), look);
    sti_look_leave(look);
    return found;
}

static sti_task *unbegun_of(const stint_pool *pool, const struct sti_sleeper *sleeper)
{
    struct sti_look look = { 0 };
    return sleeper->task != NULL ? find_unbegun(pool, sleeper->task, &look) : NULL;
}

static bool has_ended(const struct sti_offer *offer)
{
    return atomic_load_explicit(&offer->state, memory_order_acquire) == STI_OFFER_ENDED;
}

static bool is_stolen_by(const struct sti_worker *worker, const struct sti_offer *offer)
{
    return atomic_load_explicit(&offer->thief, memory_order_relaxed) == worker;
}

static bool waits_for_one_of(const struct sti_worker *worker, sti_task *awaited, struct sti_look *look)
{
    if (!sti_task_is_compound(awaited))
        return sti_worker_is_inside(worker, awaited);
    bool waits = false;
    const struct sti_compound *compound = sti_compound_of(awaited);
    if (sti_task_is_resolved(awaited) || !sti_look_enter(look))
        return false;
    for (size_t i = 0; i < compound->count && !waits; i++)
        waits = waits_for_one_of(worker, sti_compound_member(compound, i), look);
    sti_look_leave(look);
    return waits;
}

static bool waits_for(const struct sti_sleeper *sleeper, const struct sti_worker *worker)
{
    struct sti_look look = { 0 };
    return sleeper->task != NULL ? waits_for_one_of(worker, sleeper->task, &look)
                                 : is_stolen_by(worker, sleeper->offer);
}

enum { FAR, REACHED, EXPANDED };

static void expand(struct sti_sleeper *all, const struct sti_sleeper *from)
{
    for (struct sti_sleeper *sleeper = all; sleeper != NULL; sleeper = sleeper->next) {
        if (sleeper->mark == FAR && waits_for(sleeper, from->worker))
            sleeper->mark = REACHED;
    }
}

/* Mark the sleeper, those who wait for a task on its stack, those who wait for one on theirs, and so on. */
static void reach_back(struct sti_sleeper *all, const struct sti_sleeper *from)
{
    for (struct sti_sleeper *sleeper = all; sleeper != NULL; sleeper = sleeper->next)
        sleeper->mark = sleeper == from ? REACHED : FAR;
    for (struct sti_sleeper *sleeper = all; sleeper != NULL;) {
        if (sleeper->mark != REACHED) {
            sleeper = sleeper->next;
            continue;
        }
        sleeper->mark = EXPANDED;
        expand(all, sleeper);
        sleeper = all;
    }
}

static struct sti_sleeper *choose_helper(struct sti_sleeper *all)
{
    struct sti_sleeper *helper = NULL;
    for (struct sti_sleeper *sleeper = all; sleeper != NULL; sleeper = sleeper->next) {
        if (sleeper->mark == EXPANDED && sleeper->has_room &&
            (helper == NULL || (sleeper->has_much_room && !helper->has_much_room)))
            helper = sleeper;
    }
    return helper;
}

static void tell(struct sti_sleeper *sleeper, sti_task *errand)
{
    if (errand != NULL)
        sti_task_retain(errand);
    sleeper->errand = errand;
    sleeper->hopeless = errand == NULL;
    atomic_store_explicit(&sleeper->told, true, memory_order_release);
    sti_sleeper_wake(sleeper);
}

static bool goes_on(const struct sti_sleeper *sleeper)
{
    return sti_sleeper_is_told(sleeper) ||
           (sleeper->task != NULL ? sti_task_is_resolved(sleeper->task) : has_ended(sleeper->offer));
}

/* Maybe: its account may have as many running as it may. */
static bool is_held_back(sti_task *task)
{
    return sti_task_is_queued(task) && task->options.account != NULL;
}

static bool waits_outside(const stint_pool *pool, sti_task *awaited, struct sti_look *look)
{
    if (!sti_task_is_compound(awaited))
        return !sti_task_is_resolved(awaited) &&
               (awaited->pool != pool || is_held_back(awaited) || sti_task_is_delayed(awaited));
    const struct sti_compound *compound = sti_compound_of(awaited);
    if (sti_task_is_resolved(awaited))
        return false;
    if (!sti_look_enter(look))
        return true;
    bool waits = false;
    for (size_t i = 0; i < compound->count && !waits; i++)
        waits = waits_outside(pool, sti_compound_member(compound, i), look);
    sti_look_leave(look);
    return waits;
}

/* Whether some thread may wake up, or a task begin, without our doing: a region ends, a wait with a time, another pool's
 * task. */
static bool may_be_woken_from_outside(stint_pool *pool)
{
    unsigned known = 0;
    for (struct sti_sleeper *sleeper = pool->spares.sleepers; sleeper != NULL; sleeper = sleeper->next) {
        struct sti_look look = { 0 };
        if (sleeper->task != NULL && waits_outside(pool, sleeper->task, &look))
            return true;
        known++;
    }
    return atomic_load_explicit(&pool->spares.asleep, memory_order_relaxed) > known;
}

void sti_rescue(stint_pool *pool)
{
    struct sti_sleeper *all = pool->spares.sleepers;
    struct sti_sleeper *stuck = NULL;
    for (const struct sti_sleeper *sleeper = all; sleeper != NULL; sleeper = sleeper->next) {
        if (goes_on(sleeper))
            return;
    }
    for (struct sti_sleeper *sleeper = all; sleeper != NULL; sleeper = sleeper->next) {
        sti_task *unbegun = unbegun_of(pool, sleeper);
        if (unbegun == NULL)
            continue;
        reach_back(all, sleeper);
        struct sti_sleeper *helper = choose_helper(all);
        if (helper != NULL) {
            tell(helper, unbegun);
            return;
        }
        stuck = sleeper;
    }
    if (stuck != NULL && !may_be_woken_from_outside(pool))
        tell(stuck, NULL);
}
