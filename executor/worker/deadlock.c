/* SPDX-License-Identifier: MIT
 *
 * Waits that nobody else will end; see deadlock.h. */
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

/* All under one lock of the process's, which only those take that have slept for long. A sleeper on the list stays
 * asleep in this very wait until he has had the lock to leave; so the frames on his stack do not change, and a task
 * that he runs has not resolved. A task's runner is read without more: where the task has resolved, what was read is
 * not used; where it has not, its runner is alive, as a pool is not freed before somebody has had the lock after its
 * workers have ended (sti_deadlock_forget); and he has begun it, so what his thread began with is there (release and
 * acquire).
 *
 * Under the lock nothing is run, and nobody waits for more than that others are woken. */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, sti_sleeper) sleepers = LIST_HEAD_INITIALIZER(sleepers);
static atomic_uint listed; /* of these; seq_cst by the fences that deadlock.h tells of */
static uint64_t looks;     /* so far */

/* --- Pools whose threads all sleep ------------------------------------------------------------------------------- */

static bool all_sleep(const stint_pool *pool)
{
    return atomic_load_explicit(&pool->substitutes.active, memory_order_relaxed) == 0;
}

/* In a region, in a wait with a time, or for so short a time that it is not on the list. */
static bool has_more_asleep(const stint_pool *pool)
{
    const struct sti_sleeper *sleeper;
    unsigned known = 0;
    LIST_FOREACH(sleeper, &sleepers, link)
    known += sleeper->worker->pool == pool && !sleeper->timed;
    return atomic_load_explicit(&pool->substitutes.asleep, memory_order_relaxed) > known;
}

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

/* Another pool whose threads all sleep begins nothing before one of them wakes: so what waits in its queue leads where
 * all of them do. */
static bool pool_leads(struct chase *chase, const stint_pool *pool)
{
    struct sti_sleeper *sleeper;
    if (pool == NULL || pool == chase->quarry->worker->pool || !all_sleep(pool) || has_more_asleep(pool))
        return false;
    LIST_FOREACH(sleeper, &sleepers, link)
    {
        if (sleeper->worker->pool == pool && !sleeper_leads(chase, sleeper))
            return false;
    }
    return true;
}

static bool task_leads(struct sti_look *look, sti_task *task)
{
    struct chase *chase = (struct chase *)look;
    return sti_task_is_queued(task) && task->options.account == NULL ? pool_leads(chase, task->pool)
                                                                     : sleeper_leads(chase, runner_of(task));
}

/* Whether from's wait leads to the quarry. */
static bool leads_to(const struct sti_sleeper *from, const struct sti_sleeper *quarry, bool certain)
{
    /* What waits for all of some futures leads where one of them does; what waits for any, where all do. */
    struct chase chase = { .look = { .is_it = task_leads, .every = true }, .quarry = quarry, .certain = certain };
    looks++;
    return from->task != NULL ? sti_look_at(&chase.look, from->task) : sleeper_leads(&chase, thief_of(from->offer));
}

/* --- What it waits for, and nobody has begun ---------------------------------------------------------------------- */

struct look_for_unbegun {
    struct sti_look look;
    const stint_pool *pool;
    bool held;       /* only one that its account may hold back */
    bool due;        /* there is one that stands in line for a slot (delays.h), */
    bool elsewhere;  /* or one of another pool, all of whose threads sleep */
    sti_task *found; /* retained */
};

static bool is_unbegun(struct sti_look *look, sti_task *task)
{
    struct look_for_unbegun *unbegun = (struct look_for_unbegun *)look;
    if (task->pool != unbegun->pool) {
        unbegun->elsewhere = unbegun->elsewhere || ((sti_task_is_queued(task) || sti_task_is_due(task)) &&
                                                    task->pool != NULL && all_sleep(task->pool));
        return false;
    }
    unbegun->due = unbegun->due || sti_task_is_due(task);
    if (!sti_task_is_queued(task) || (unbegun->held && task->options.account == NULL))
        return false;
    sti_task_retain(task);
    unbegun->found = task;
    return true;
}

/* Of the sleeper's pool. */
static struct look_for_unbegun look_for_unbegun(const struct sti_sleeper *sleeper, bool held)
{
    struct look_for_unbegun unbegun = { .look = { .is_it = is_unbegun }, .pool = sleeper->worker->pool, .held = held };
    if (sleeper->task != NULL && !sleeper->timed)
        sti_look_at(&unbegun.look, sleeper->task);
    return unbegun;
}

/* --- Slots of accounts -------------------------------------------------------------------------------------------- */

static bool waits_for_held(const struct sti_sleeper *sleeper)
{
    sti_task *held = look_for_unbegun(sleeper, true).found;
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
    const struct sti_sleeper *other;
    LIST_FOREACH(other, &sleepers, link)
    {
        if (other != sleeper && may_have_slot(other, account) && leads_to(other, sleeper, false))
            return true;
    }
    return false;
}

static bool may_run_beyond(struct sti_sleeper *sleeper)
{
    sti_task *held = sleeper->may_run ? look_for_unbegun(sleeper, true).found : NULL;
    stint_account *account = held != NULL ? sti_admission_account_of(held) : NULL;
    sleeper->beyond = account != NULL && (may_have_slot(sleeper, account) || slot_waits_for(sleeper, account));
    if (sleeper->beyond)
        sleeper->found = held;
    else if (held != NULL)
        sti_task_release(held);
    stint_account_release(account);
    return sleeper->beyond;
}

/* --- Pools in which all threads sleep ----------------------------------------------------------------------------- */

/* Pools all of whose threads sleep and wait for each other's tasks are one, as far as it goes: those of this look. */
static void join_pool(const stint_pool *pool)
{
    ((stint_pool *)(uintptr_t)pool)->substitutes.stuck_in = looks;
}

static bool is_joined(const stint_pool *pool)
{
    return pool->substitutes.stuck_in == looks;
}

struct look_outside {
    struct sti_look look;
    bool has_joined; /* one pool more */
};

/* One that its account may hold back, or that waits for a time; and a task of a pool in which some thread is awake. */
static bool is_outside(struct sti_look *look, sti_task *task)
{
    if (sti_task_is_resolved(task))
        return false;
    if ((sti_task_is_queued(task) && task->options.account != NULL) || sti_delayed_is_for_a_time(task))
        return true;
    if (task->pool == NULL || !all_sleep(task->pool) || has_more_asleep(task->pool))
        return true;
    if (!is_joined(task->pool)) {
        join_pool(task->pool);
        ((struct look_outside *)look)->has_joined = true;
    }
    return false;
}

static bool goes_on(const struct sti_sleeper *sleeper)
{
    return sleeper->task != NULL
               ? sti_task_is_resolved(sleeper->task)
               : atomic_load_explicit(&sleeper->offer->state, memory_order_acquire) == STI_OFFER_ENDED;
}

static bool may_wake(const struct sti_sleeper *sleeper, struct look_outside *outside)
{
    return goes_on(sleeper) || (sleeper->task != NULL && sti_look_at(&outside->look, sleeper->task));
}

/* Whether some thread may wake up, or a task begin, without our doing: a region ends, a wait with a time, a pool in
 * which somebody is awake goes on. */
static bool may_be_woken_from_outside(const stint_pool *pool)
{
    struct look_outside outside;
    if (has_more_asleep(pool))
        return true;
    looks++;
    join_pool(pool);
    do {
        outside = (struct look_outside){ .look = { .is_it = is_outside, .beyond = true } };
        const struct sti_sleeper *sleeper;
        LIST_FOREACH(sleeper, &sleepers, link)
        {
            if (is_joined(sleeper->worker->pool) && !sleeper->timed && may_wake(sleeper, &outside))
                return true;
        }
    } while (outside.has_joined);
    return false;
}

static enum sti_verdict look_where_all_sleep(struct sti_sleeper *sleeper)
{
    const stint_pool *pool = sleeper->worker->pool;
    struct look_for_unbegun unbegun = look_for_unbegun(sleeper, false);
    if (unbegun.found != NULL && sleeper->may_run) {
        sleeper->found = unbegun.found;
        return STI_RUN;
    }
    if (unbegun.found != NULL)
        sti_task_release(unbegun.found);
    bool is_stuck = unbegun.found != NULL || unbegun.due || unbegun.elsewhere;
    return is_stuck && !may_be_woken_from_outside(pool) ? STI_GIVE_UP : STI_SLEEP_ON;
}

/* --- Looking ------------------------------------------------------------------------------------------------------ */

static void nudge(struct sti_sleeper *sleeper)
{
    atomic_store_explicit(&sleeper->nudged, true, memory_order_release);
    sti_event_signal(&sleeper->task->woken);
}

/* A circle through each of several futures that one waits for shows to that one alone: others come past it once. */
static bool waits_for_several(const struct sti_sleeper *sleeper)
{
    return sti_task_is_compound(sleeper->task);
}

/* Those that the last look came past, which was the sleeper's first, or not. */
static void nudge_seen(const struct sti_sleeper *self, bool in_circle)
{
    struct sti_sleeper *sleeper;
    LIST_FOREACH(sleeper, &sleepers, link)
    {
        if (sleeper != self && sleeper->seen == looks && sleeper->task != NULL && !sleeper->timed &&
            (in_circle || waits_for_held(sleeper) || (!self->has_looked && waits_for_several(sleeper))))
            nudge(sleeper);
    }
}

static void nudge_all_of(const stint_pool *pool, const struct sti_sleeper *self)
{
    struct sti_sleeper *sleeper;
    LIST_FOREACH(sleeper, &sleepers, link)
    {
        if (sleeper != self && sleeper->worker->pool == pool && sleeper->task != NULL && !sleeper->timed)
            nudge(sleeper);
    }
}

static bool is_stuck(const struct sti_sleeper *sleeper)
{
    struct look_for_unbegun unbegun = look_for_unbegun(sleeper, false);
    if (unbegun.found != NULL)
        sti_task_release(unbegun.found);
    return unbegun.found != NULL || unbegun.due || unbegun.elsewhere;
}

/* The last of several pools that wait for each other has fallen asleep, and it may be for another one's sleeper to be
 * told. One is enough. */
static void nudge_stuck_elsewhere(const stint_pool *pool)
{
    struct sti_sleeper *sleeper;
    if (may_be_woken_from_outside(pool))
        return;
    LIST_FOREACH(sleeper, &sleepers, link)
    {
        if (sleeper->worker->pool != pool && is_joined(sleeper->worker->pool) && sleeper->task != NULL &&
            !sleeper->timed && is_stuck(sleeper)) {
            nudge(sleeper);
            return;
        }
    }
}

static void take_off_list(struct sti_sleeper *sleeper)
{
    if (!sleeper->is_listed)
        return;
    LIST_REMOVE(sleeper, link);
    sleeper->is_listed = false;
    sleeper->worker->slept = NULL;
    atomic_fetch_sub_explicit(&listed, 1, memory_order_relaxed);
}

static enum sti_verdict look(struct sti_sleeper *sleeper)
{
    enum sti_verdict verdict = STI_SLEEP_ON;
    if (!sleeper->timed && leads_to(sleeper, sleeper, true)) {
        if (sleeper->task != NULL)
            return STI_NEVER_ENDS;
        nudge_seen(sleeper, true);
        return STI_SLEEP_ON;
    }
    if (may_run_beyond(sleeper))
        return STI_RUN;
    if (all_sleep(sleeper->worker->pool))
        verdict = look_where_all_sleep(sleeper);
    if (verdict == STI_SLEEP_ON) {
        leads_to(sleeper, sleeper, false);
        nudge_seen(sleeper, false);
    }
    return verdict;
}

void sti_deadlock_enter(struct sti_sleeper *sleeper)
{
    sti_plain_mutex_lock(&lock);
    LIST_INSERT_HEAD(&sleepers, sleeper, link);
    sleeper->is_listed = true;
    sleeper->worker->slept = sleeper;
    atomic_fetch_add_explicit(&listed, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    if (all_sleep(sleeper->worker->pool)) {
        nudge_all_of(sleeper->worker->pool, sleeper); /* what may wake them from outside has become less */
        nudge_stuck_elsewhere(sleeper->worker->pool);
    }
    sti_plain_mutex_unlock(&lock);
}

/* One that is told goes off the list: one of a circle, or of those who are stuck, is enough. */
enum sti_verdict sti_deadlock_look(struct sti_sleeper *sleeper)
{
    sti_plain_mutex_lock(&lock);
    atomic_store_explicit(&sleeper->nudged, false, memory_order_relaxed);
    enum sti_verdict verdict = look(sleeper);
    sleeper->has_looked = true;
    if (verdict != STI_SLEEP_ON)
        take_off_list(sleeper);
    sti_plain_mutex_unlock(&lock);
    return verdict;
}

void sti_deadlock_leave(struct sti_sleeper *sleeper)
{
    sti_plain_mutex_lock(&lock);
    take_off_list(sleeper);
    sti_plain_mutex_unlock(&lock);
}

void sti_deadlock_stir(const stint_pool *pool)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (!all_sleep(pool) || atomic_load_explicit(&listed, memory_order_relaxed) == 0)
        return;
    sti_plain_mutex_lock(&lock);
    nudge_all_of(pool, NULL);
    sti_plain_mutex_unlock(&lock);
}

void sti_deadlock_tell_of(const stint_pool *pool, const sti_task *task)
{
    const stint_account *account = task->options.account;
    sti_deadlock_stir(pool);
    if (account == NULL || atomic_load_explicit(&listed, memory_order_relaxed) == 0)
        return;
    struct sti_sleeper *sleeper;
    sti_plain_mutex_lock(&lock);
    LIST_FOREACH(sleeper, &sleepers, link)
    {
        if (sleeper->task != NULL && !sleeper->timed && may_have_slot(sleeper, account))
            nudge(sleeper);
    }
    sti_plain_mutex_unlock(&lock);
}

void sti_deadlock_forget(void)
{
    sti_plain_mutex_lock(&lock);
    sti_plain_mutex_unlock(&lock);
}
