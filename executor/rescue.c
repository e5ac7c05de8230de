/* SPDX-License-Identifier: MIT
 *
 * Errands for threads that all wait; see rescue.h. Under the lock of the pool's spares. */
#include "rescue.h"

#include <stddef.h>

#include "delays.h"
#include "look.h"
#include "pool_state.h"
#include "split.h"
#include "worker.h"

struct look_for_unbegun {
    struct sti_look look;
    const stint_pool *pool;
    sti_task *found; /* retained */
    bool due;        /* one of them stands in line for a place (delays.h) */
};

static bool is_unbegun(struct sti_look *look, sti_task *task)
{
    struct look_for_unbegun *unbegun = (struct look_for_unbegun *)look;
    unbegun->due = unbegun->due || (task->pool == unbegun->pool && sti_task_is_due(task));
    if (task->pool != unbegun->pool || !sti_task_is_queued(task))
        return false;
    sti_task_retain(task);
    unbegun->found = task;
    return true;
}

/* A task of the pool's that nobody has begun, and that the awaited one waits for; retained. NULL: there is none; then
 * *due says whether there is one that nobody can begin, as it has no place yet. */
static sti_task *unbegun_of(const stint_pool *pool, const struct sti_sleeper *sleeper, bool *due)
{
    struct look_for_unbegun unbegun = { .look = { .is_it = is_unbegun }, .pool = pool };
    if (sleeper->task != NULL)
        sti_look_at(&unbegun.look, sleeper->task);
    *due = unbegun.due;
    return unbegun.found;
}

static bool has_ended(const struct sti_offer *offer)
{
    return atomic_load_explicit(&offer->state, memory_order_acquire) == STI_OFFER_ENDED;
}

static bool is_stolen_by(const struct sti_worker *worker, const struct sti_offer *offer)
{
    return atomic_load_explicit(&offer->thief, memory_order_relaxed) == worker;
}

struct look_for_runner {
    struct sti_look look;
    const struct sti_worker *worker;
};

static bool is_run(struct sti_look *look, sti_task *task)
{
    return sti_worker_is_inside(((const struct look_for_runner *)look)->worker, task);
}

static bool waits_for(const struct sti_sleeper *sleeper, const struct sti_worker *worker)
{
    struct look_for_runner runner = { .look = { .is_it = is_run }, .worker = worker };
    return sleeper->task != NULL ? sti_look_at(&runner.look, sleeper->task) : is_stolen_by(worker, sleeper->offer);
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

/* The reference to the errand is the sleeper's from now on. */
static void tell(struct sti_sleeper *sleeper, sti_task *errand)
{
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
    return (sti_task_is_queued(task) || sti_task_is_due(task)) && task->options.account != NULL;
}

struct look_outside {
    struct sti_look look;
    const stint_pool *pool;
};

static bool is_outside(struct sti_look *look, sti_task *task)
{
    return !sti_task_is_resolved(task) && (task->pool != ((const struct look_outside *)look)->pool ||
                                           is_held_back(task) || sti_delayed_is_for_a_time(task));
}

static bool waits_outside(const stint_pool *pool, sti_task *awaited)
{
    struct look_outside outside = { .look = { .is_it = is_outside, .beyond = true }, .pool = pool };
    return sti_look_at(&outside.look, awaited);
}

/* Whether some thread may wake up, or a task begin, without our doing: a region ends, a wait with a time, another pool's
 * task. */
static bool may_be_woken_from_outside(stint_pool *pool)
{
    unsigned known = 0;
    for (struct sti_sleeper *sleeper = pool->spares.sleepers; sleeper != NULL; sleeper = sleeper->next) {
        if (sleeper->task != NULL && waits_outside(pool, sleeper->task))
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
        bool due;
        sti_task *unbegun = unbegun_of(pool, sleeper, &due);
        if (unbegun == NULL) {
            stuck = due ? sleeper : stuck;
            continue;
        }
        reach_back(all, sleeper);
        struct sti_sleeper *helper = choose_helper(all);
        if (helper != NULL) {
            tell(helper, unbegun);
            return;
        }
        sti_task_release(unbegun);
        stuck = sleeper;
    }
    if (stuck != NULL && !may_be_woken_from_outside(pool))
        tell(stuck, NULL);
}
