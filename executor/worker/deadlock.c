/* SPDX-License-Identifier: MIT
 *
 * Waits that would never end, and pools in which every thread waits; see deadlock.h. */
#include "deadlock.h"

#include <pthread.h>
#include <stddef.h>

#include "alloc/base/module.h"
#include "alloc/base/process.h"
#include "alloc/charge/account.h"
#include "executor/fork/split.h"
#include "executor/pool/pool_state.h"
#include "executor/task/compound.h"
#include "executor/task/continuation.h"
#include "executor/task/delays.h"
#include "executor/task/submit.h"
#include "worker.h"

/* --- Following waits.
 *
 * All under one lock of the process's, which only those take that have slept for long. A sleeper on the list stays
 * asleep in this very wait until he has had the lock to leave; so the frames on his stack do not change, and a task
 * that he runs has not resolved. A task's runner is read without more: where the task has resolved, what was read is
 * not used; where it has not, its runner is alive, as a pool is not freed before somebody has had the lock after its
 * workers have ended (sti_deadlock_forget); and he has begun it, so what his thread began with is there (release and
 * acquire).
 *
 * Under the lock nothing is run, and nobody waits for more than that others are woken. */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sti_sleeper *sleepers;
static uint64_t looks; /* so far */

/* --- Following waits ---------------------------------------------------------------------------------------------- */

struct chase {
    struct sti_look look;
    const struct sti_sleeper *quarry; /* where it is to lead */
    bool certain;                     /* and for ever: a wait with a time-out leads nowhere */
};

static struct sti_sleeper *sleeper_on(const struct sti_worker *worker)
{
    return worker != NULL ? worker->slept : NULL;
}

/* The sleeper that runs the task. */
static struct sti_sleeper *runner_of(sti_task *task)
{
    const struct sti_worker *runner = atomic_load_explicit(&task->runner, memory_order_acquire);
    return sti_task_is_resolved(task) ? NULL : sleeper_on(runner);
}

static struct sti_sleeper *thief_of(const struct sti_offer *offer)
{
    return sleeper_on(atomic_load_explicit(&offer->thief, memory_order_acquire));
}

static bool waits_for_others(sti_task *task)
{
    return sti_task_is_compound(task) || sti_task_is_delayed(task);
}

/* Along those who wait for one thing each. Only where compounds or delayed tasks are on the way does this call itself,
 * so deep as they are looked into. */
static bool sleeper_leads(struct chase *chase, struct sti_sleeper *first)
{
    struct sti_sleeper *sleeper = first;
    while (sleeper != NULL && sleeper != chase->quarry && sleeper->seen != looks) {
        sleeper->seen = looks;
        sleeper->leads = false;
        if (sleeper->timed && chase->certain)
            return false;
        if (sleeper->task != NULL && waits_for_others(sleeper->task))
            return first->leads = sti_look_at(&chase->look, sleeper->task);
        sleeper = sleeper->task != NULL ? runner_of(sleeper->task) : thief_of(sleeper->offer);
    }
    bool leads = sleeper != NULL && (sleeper == chase->quarry || sleeper->leads);
    if (first != NULL)
        first->leads = leads;
    return leads;
}

static bool task_leads(struct sti_look *look, sti_task *task)
{
    return sleeper_leads((struct chase *)look, runner_of(task));
}

/* Whether from's wait leads to the quarry. */
static bool leads_to(const struct sti_sleeper *from, const struct sti_sleeper *quarry, bool certain)
{
    /* What waits for all of some futures leads where one of them does; what waits for any, where all do. */
    struct chase chase = { .look = { .is_it = task_leads, .every = true }, .quarry = quarry, .certain = certain };
    looks++;
    return from->task != NULL ? sti_look_at(&chase.look, from->task) : sleeper_leads(&chase, thief_of(from->offer));
}

/* --- Slots -------------------------------------------------------------------------------------------------------- */

struct look_for_held {
    struct sti_look look;
    const stint_pool *pool;
    sti_task *found; /* retained */
};

static bool is_held(struct sti_look *look, sti_task *task)
{
    struct look_for_held *held = (struct look_for_held *)look;
    if (task->pool != held->pool || task->options.account == NULL || !sti_task_is_queued(task))
        return false;
    sti_task_retain(task);
    held->found = task;
    return true;
}

/* A task of the pool's that waits for its account, and that the sleeper waits for; retained. NULL: there is none. */
static sti_task *held_task_of(const struct sti_sleeper *sleeper)
{
    struct look_for_held held = { .look = { .is_it = is_held }, .pool = sleeper->worker->pool };
    if (sleeper->task != NULL && !sleeper->timed)
        sti_look_at(&held.look, sleeper->task);
    return held.found;
}

static bool waits_for_held(const struct sti_sleeper *sleeper)
{
    sti_task *held = held_task_of(sleeper);
    if (held != NULL)
        sti_task_release(held);
    return held != NULL;
}

/* Whether it runs a task that may have one of the account's slots, or of those above it. */
static bool may_have_slot(const struct sti_sleeper *sleeper, const stint_account *account)
{
    for (const struct sti_frame *frame = sti_worker_frame(sleeper->worker); frame != NULL; frame = frame->below) {
        if (!sti_task_is_resolved(frame->task) && sti_account_have_common(frame->task->options.account, account))
            return true;
    }
    return false;
}

/* Whether somebody who may have such a slot waits for the sleeper, and so does not run before that one goes on. */
static bool slot_waits_for(const struct sti_sleeper *sleeper, const stint_account *account)
{
    for (const struct sti_sleeper *other = sleepers; other != NULL; other = other->next_long) {
        if (other != sleeper && may_have_slot(other, account) && leads_to(other, sleeper, false))
            return true;
    }
    return false;
}

static bool may_run_beyond(struct sti_sleeper *sleeper)
{
    sti_task *held = sleeper->has_room ? held_task_of(sleeper) : NULL;
    stint_account *account = held != NULL ? sti_admission_account_of(held) : NULL;
    bool may = account != NULL && slot_waits_for(sleeper, account);
    if (may)
        sleeper->beyond = held;
    else if (held != NULL)
        sti_task_release(held);
    stint_account_release(account);
    return may;
}

/* --- Looking ------------------------------------------------------------------------------------------------------ */

void sti_sleeper_wake(const struct sti_sleeper *sleeper)
{
    if (sleeper->task != NULL)
        sti_wake_word_change(sleeper->task);
    else
        sti_event_signal(&sleeper->worker->helped);
}

/* Those that the last look came past. */
static void nudge_seen(const struct sti_sleeper *self, bool in_circle)
{
    for (struct sti_sleeper *sleeper = sleepers; sleeper != NULL; sleeper = sleeper->next_long) {
        if (sleeper == self || sleeper->seen != looks || sleeper->task == NULL || sleeper->timed ||
            (!in_circle && !waits_for_held(sleeper)))
            continue;
        atomic_store_explicit(&sleeper->nudged, true, memory_order_release);
        sti_sleeper_wake(sleeper);
    }
}

static void take_off_list(struct sti_sleeper *sleeper)
{
    if (sleeper->link_long == NULL)
        return;
    *sleeper->link_long = sleeper->next_long;
    if (sleeper->next_long != NULL)
        sleeper->next_long->link_long = sleeper->link_long;
    sleeper->link_long = NULL;
    sleeper->worker->slept = NULL;
}

static enum sti_verdict look(struct sti_sleeper *sleeper)
{
    if (!sleeper->timed && leads_to(sleeper, sleeper, true)) {
        if (sleeper->task != NULL) {
            take_off_list(sleeper); /* one of the circle is enough */
            return STI_NEVER_ENDS;
        }
        nudge_seen(sleeper, true);
        return STI_SLEEP_ON;
    }
    if (may_run_beyond(sleeper))
        return STI_RUN_BEYOND;
    leads_to(sleeper, sleeper, false);
    nudge_seen(sleeper, false);
    return STI_SLEEP_ON;
}

void sti_deadlock_enter(struct sti_sleeper *sleeper)
{
    sti_plain_mutex_lock(&lock);
    sleeper->next_long = sleepers;
    sleeper->link_long = &sleepers;
    if (sleepers != NULL)
        sleepers->link_long = &sleeper->next_long;
    sleepers = sleeper;
    sleeper->worker->slept = sleeper;
    sti_plain_mutex_unlock(&lock);
}

enum sti_verdict sti_deadlock_look(struct sti_sleeper *sleeper)
{
    sti_plain_mutex_lock(&lock);
    atomic_store_explicit(&sleeper->nudged, false, memory_order_relaxed);
    enum sti_verdict verdict = look(sleeper);
    sti_plain_mutex_unlock(&lock);
    return verdict;
}

void sti_deadlock_leave(struct sti_sleeper *sleeper)
{
    sti_plain_mutex_lock(&lock);
    take_off_list(sleeper);
    sti_plain_mutex_unlock(&lock);
}

void sti_deadlock_forget(void)
{
    sti_plain_mutex_lock(&lock);
    sti_plain_mutex_unlock(&lock);
}

/* --- Tasks assigned to threads that all wait. Under the lock of the pool's substitutes. --- */

struct look_for_unbegun {
    struct sti_look look;
    const stint_pool *pool;
    sti_task *found; /* retained */
    bool due;        /* one of them stands in line for a slot (delays.h) */
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
 * *due says whether there is one that nobody can begin, as it has no slot yet. */
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

/* The reference to the assigned task is the sleeper's from now on. */
static void tell(struct sti_sleeper *sleeper, sti_task *assigned)
{
    sleeper->assigned = assigned;
    sleeper->hopeless = assigned == NULL;
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

/* Whether some thread may wake up, or a task begin, without our doing: a region ends, a wait with a time, another
 * pool's task. */
static bool may_be_woken_from_outside(stint_pool *pool)
{
    unsigned known = 0;
    for (struct sti_sleeper *sleeper = pool->substitutes.sleepers; sleeper != NULL; sleeper = sleeper->next) {
        if (sleeper->task != NULL && waits_outside(pool, sleeper->task))
            return true;
        known++;
    }
    return atomic_load_explicit(&pool->substitutes.asleep, memory_order_relaxed) > known;
}

void sti_rescue(stint_pool *pool)
{
    struct sti_sleeper *all = pool->substitutes.sleepers;
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
