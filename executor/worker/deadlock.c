/* SPDX-License-Identifier: MIT
 *
 * Waits that nobody else will end; see deadlock.h. */
#include "deadlock.h"

#include <pthread.h>
#include <stddef.h>

#include "alloc/meter/account.h"
#include "alloc/platform/instrumentation.h"
#include "alloc/platform/module.h"
#include "executor/base/split.h"
#include "executor/base/state.h"
#include "executor/queue/fair_queue.h"
#include "executor/task/compound.h"
#include "executor/task/delays.h"
#include "executor/task/submit.h"

/* All under one lock of the process's, which only those take that have slept for long. A sleeper on the list stays
 * asleep in this very wait until he has had the lock to leave; so the frames on his stack do not change, and a task
 * that he runs has not resolved. A task's runner is read without more: where the task has resolved, what was read is
 * not used; where it has not, its runner is alive, as a pool is not freed before somebody has had the lock after its
 * workers have ended and its tasks have all been taken out of its queues (sti_deadlock_forget); and he has begun it, so
 * what his thread began with is there (release and acquire).
 *
 * Under the lock nothing is run, and nobody waits for more than that others are woken.
 *
 * Order of locks: that of the list of pools (pools.c), this one, then those of queues, lines, groups, serial queues and
 * futures, of which a look holds one at a time. So nobody calls these functions with one of the latter. */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static TAILQ_HEAD(sti_sleepers, sti_sleeper) sleepers = TAILQ_HEAD_INITIALIZER(sleepers); /* who came last is first */
static atomic_uint listed; /* of these; seq_cst by the fences that deadlock.h tells of */

static bool all_sleep(const stint_pool *pool)
{
    return sti_substitutes_all_sleep(&pool->substitutes);
}

/* --- Who may run what: the table of deadlock.h, task by task ------------------------------------------------------ */

/* What a look takes for granted. */
enum sight {
    FOR_CIRCLES, /* what nobody has begun will be begun */
    FOR_PLACES,  /* it will, if its pool has a thread for it, and its account a slot */
    FOR_SLOTS,   /* as for circles; but a time-out is not waited for */
};

struct question {
    struct sti_look look;
    enum sight sight;
};

static bool is_stuck(const struct sti_worker *worker)
{
    return worker != NULL && worker->slept != NULL && worker->slept->stuck;
}

/* All its threads sleep, and none for a while: in a region, in a wait with a time, or not on the list yet. */
static bool pool_is_stuck(const stint_pool *pool)
{
    return pool != NULL && all_sleep(pool) &&
           atomic_load_explicit(&pool->substitutes.asleep, memory_order_relaxed) <= pool->substitutes.stuck;
}

/* Of the tasks that the sleeper's worker runs, those with a slot of the account. */
static unsigned slots_of(const struct sti_sleeper *sleeper, const stint_account *account)
{
    unsigned slots = 0;
    for (const struct sti_frame *frame = sti_worker_frame(sleeper->worker); frame != NULL; frame = frame->below)
        slots += !frame->stolen && !sti_task_is_resolved(frame->task) &&
                 sti_account_contains(account, frame->task->options.account);
    return slots;
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

/* All its slots are with those who are stuck. None is with a task that has not begun and whose pool is asleep: such
 * slots are passed on (fair_queue.h). */
static bool slots_are_stuck(const stint_account *account)
{
    const struct sti_sleeper *sleeper;
    unsigned slots = 0;
    if (sti_account_has_slot(account))
        return false;
    TAILQ_FOREACH(sleeper, &sleepers, link)
    slots += sleeper->stuck ? slots_of(sleeper, account) : 0;
    return slots >= sti_account_running(account);
}

/* The same of it or one above it. */
static bool account_is_stuck(const stint_account *account)
{
    while (account != NULL && !slots_are_stuck(account))
        account = sti_account_parent(account);
    return account != NULL;
}

static bool is_held_back(sti_task *task)
{
    stint_account *account = sti_admission_account_of(task);
    bool is_it = account_is_stuck(account);
    stint_account_release(account);
    return is_it;
}

/* Whether some of those are held back that wait in the account: in a pool that is stuck, or as slots are. Which ones
 * wait in it nobody knows: so this is for an account with its maximum of them, to be told rather too early. */
static bool holds_some_back(const stint_account *account)
{
    const struct sti_sleeper *sleeper;
    TAILQ_FOREACH(sleeper, &sleepers, link)
    {
        if (!sleeper->stuck)
            continue;
        if (pool_is_stuck(sleeper->worker->pool))
            return true;
        for (const struct sti_frame *frame = sti_worker_frame(sleeper->worker); frame != NULL; frame = frame->below) {
            const stint_account *slots = sti_task_is_resolved(frame->task) ? NULL : frame->task->options.account;
            for (; slots != NULL; slots = sti_account_parent(slots)) {
                if (sti_account_have_common(slots, account) && slots_are_stuck(slots))
                    return true;
            }
        }
    }
    return false;
}

/* It or one above it has its maximum of waiting tasks. */
static bool line_is_stuck(const stint_account *account)
{
    while (account != NULL && !(sti_account_is_waiting_full(account) && holds_some_back(account)))
        account = sti_account_parent(account);
    return account != NULL;
}

/* Of one that is due: it finds no place among those that wait, or would be held back there. One that is just being put
 * among them is told of when that has failed, or not (delays.c). */
static bool due_is_stuck(sti_task *task)
{
    struct sti_delayed *delayed = (struct sti_delayed *)task;
    stint_account *account;
    if (!sti_queue_slots_stands(delayed->home, &delayed->waiter, &account))
        return false;
    bool is_it = pool_is_stuck(delayed->home) || account_is_stuck(account) || line_is_stuck(account) ||
                 (task->fair_queue != NULL && sti_fair_queue_is_full_of(task->fair_queue, account_is_stuck));
    stint_account_release(account);
    return is_it;
}

/* Of one task: whether nobody will end it, as long as those who are stuck stay so. */
static bool nobody_ends(struct sti_look *look, sti_task *task)
{
    const struct question *question = (struct question *)look;
    if (sti_task_is_due(task))
        return question->sight == FOR_PLACES && due_is_stuck(task);
    if (sti_task_is_queued(task))
        return question->sight == FOR_PLACES && (pool_is_stuck(task->pool) || is_held_back(task));
    const struct sti_worker *runner = atomic_load_explicit(&task->runner, memory_order_acquire);
    return !sti_task_is_resolved(task) && is_stuck(runner);
}

static bool waits_in_vain(const struct sti_sleeper *sleeper, enum sight sight)
{
    /* All of some are waited for in vain where one of them is; any, where all are. */
    struct question question = { .look = { .is_it = nobody_ends, .every = true }, .sight = sight };
    if (sleeper->task != NULL)
        return sti_look_at(&question.look, sleeper->task);
    return atomic_load_explicit(&sleeper->offer->state, memory_order_acquire) != STI_OFFER_ENDED &&
           is_stuck(atomic_load_explicit(&sleeper->offer->thief, memory_order_acquire));
}

/* --- What a sleeper could run itself ------------------------------------------------------------------------------ */

/* Its account holds it not back, this moment. */
static bool has_slots(sti_task *task)
{
    stint_account *account = sti_admission_account_of(task);
    const stint_account *at = account;
    while (at != NULL && sti_account_has_slot(at))
        at = sti_account_parent(at);
    stint_account_release(account);
    return at == NULL;
}

struct search {
    struct sti_look look;
    const stint_pool *pool; /* NULL: of any, and what is due as well */
    bool held;              /* only one that its account may hold back; or only one that it does not */
    sti_task *found;        /* retained */
};

static bool is_unbegun(struct sti_look *look, sti_task *task)
{
    struct search *search = (struct search *)look;
    if (search->pool == NULL)
        return sti_task_is_queued(task) || sti_task_is_due(task);
    if (task->pool != search->pool || !sti_task_is_queued(task) ||
        (search->held ? task->options.account == NULL : !has_slots(task)))
        return false;
    sti_task_retain(task);
    search->found = task;
    return true;
}

/* What it waits for, and nobody of its pool has begun; retained. NULL: nothing. */
static sti_task *find_unbegun(const struct sti_sleeper *sleeper, bool held)
{
    struct search search = { .look = { .is_it = is_unbegun }, .pool = sleeper->worker->pool, .held = held };
    if (sleeper->may_run)
        sti_look_at(&search.look, sleeper->task);
    return search.found;
}

static bool waits_for_unbegun(const struct sti_sleeper *sleeper)
{
    struct search search = { .look = { .is_it = is_unbegun } };
    return sti_look_at(&search.look, sleeper->task);
}

static void sleeper_let_go(sti_task *task)
{
    if (task != NULL)
        sti_task_release(task);
}

/* Nobody else will: so it does. */
static bool runs_itself(struct sti_sleeper *sleeper)
{
    sti_task *held = find_unbegun(sleeper, true);
    sleeper->beyond = held != NULL && is_held_back(held);
    sti_task *any = sleeper->beyond || !all_sleep(sleeper->worker->pool) ? NULL : find_unbegun(sleeper, false);
    sleeper->runs = sleeper->beyond || any != NULL;
    sleeper_let_go(held);
    sleeper_let_go(any);
    return sleeper->runs;
}

/* --- Who is stuck ------------------------------------------------------------------------------------------------- */

static void set_stuck(struct sti_sleeper *sleeper, bool stuck)
{
    stint_pool *pool = sleeper->worker->pool;
    pool->substitutes.stuck += (unsigned)stuck - (unsigned)sleeper->stuck;
    sleeper->stuck = stuck;
}

/* At first all but those who wake by themselves. */
static void suppose_all_stuck(enum sight sight)
{
    struct sti_sleeper *sleeper;
    TAILQ_FOREACH(sleeper, &sleepers, link)
    {
        sleeper->runs = false;
        set_stuck(sleeper, !sleeper->timed || sight == FOR_SLOTS);
    }
}

static bool set_free(struct sti_sleeper *sleeper, const struct sti_sleeper *fixed, enum sight sight)
{
    if (!sleeper->stuck || sleeper == fixed || waits_in_vain(sleeper, sight))
        return false;
    set_stuck(sleeper, false);
    return true;
}

/* Then those are not whose wait somebody will end that is not, until there is no such one any more. Chains in the
 * order in which they have come, or against it, take one round. */
static void free_who_will_wake(const struct sti_sleeper *fixed, enum sight sight)
{
    struct sti_sleeper *sleeper;
    for (bool any = true; any;) {
        any = false;
        TAILQ_FOREACH(sleeper, &sleepers, link)
        any = set_free(sleeper, fixed, sight) || any;
        if (any)
            TAILQ_FOREACH_REVERSE(sleeper, &sleepers, sti_sleepers, link)
        set_free(sleeper, fixed, sight);
    }
}

/* Those who run what they wait for take part again when they sleep the next time. */
static bool free_who_run(const struct sti_sleeper *fixed)
{
    struct sti_sleeper *sleeper;
    bool any = false;
    TAILQ_FOREACH(sleeper, &sleepers, link)
    any = (sleeper->stuck && sleeper != fixed && runs_itself(sleeper)) || any;
    TAILQ_FOREACH(sleeper, &sleepers, link)
    {
        if (sleeper->runs)
            set_stuck(sleeper, false);
    }
    return any;
}

/* Who is stuck, if fixed is, or is not, whatever it waits for. */
static void find_stuck(struct sti_sleeper *fixed, bool is_fixed_stuck, enum sight sight)
{
    suppose_all_stuck(sight);
    if (fixed != NULL)
        set_stuck(fixed, is_fixed_stuck);
    free_who_will_wake(fixed, sight);
    if (sight == FOR_PLACES && free_who_run(fixed))
        free_who_will_wake(fixed, sight);
}

/* --- Looking ------------------------------------------------------------------------------------------------------ */

static bool can_be_nudged(const struct sti_sleeper *sleeper)
{
    return sleeper->task != NULL && !sleeper->timed;
}

static void sleeper_nudge(struct sti_sleeper *sleeper)
{
    atomic_store_explicit(&sleeper->nudged, true, memory_order_release);
    sti_event_signal(&sleeper->task->woken);
}

/* If it is told, that ends its own wait in time: it is in the circle, and not one that waits for that. */
static bool is_to_be_notified(struct sti_sleeper *sleeper, enum sight sight, bool directly)
{
    if (!sleeper->doomed || sleeper->task == NULL || (directly && !waits_for_unbegun(sleeper)))
        return false;
    find_stuck(sleeper, false, sight);
    return !waits_in_vain(sleeper, sight);
}

static struct sti_sleeper *sleeper_to_notify(struct sti_sleeper *self, enum sight sight, bool directly)
{
    struct sti_sleeper *sleeper;
    if (is_to_be_notified(self, sight, directly))
        return self;
    TAILQ_FOREACH(sleeper, &sleepers, link)
    {
        if (sleeper != self && is_to_be_notified(sleeper, sight, directly))
            return sleeper;
    }
    return NULL;
}

static struct sti_sleeper *any_to_be_told(struct sti_sleeper *self)
{
    struct sti_sleeper *notified = self->task != NULL ? self : TAILQ_FIRST(&sleepers);
    while (notified != NULL && (!notified->doomed || notified->task == NULL))
        notified = TAILQ_NEXT(notified, link);
    return notified;
}

/* One is enough. Of those who wait for a place it is best one that waits for what has not begun. Where no one's being
 * told would end its own wait, since two things are missing at once, it is any of them: it is stuck as the others are,
 * and the next one is told when its wait has ended. */
static bool is_self_notified(struct sti_sleeper *self, enum sight sight)
{
    struct sti_sleeper *notified;
    TAILQ_FOREACH(notified, &sleepers, link)
    notified->doomed = notified->stuck;
    notified = sight == FOR_PLACES ? sleeper_to_notify(self, sight, true) : NULL;
    if (notified == NULL)
        notified = sleeper_to_notify(self, sight, false);
    if (notified == NULL)
        notified = any_to_be_told(self);
    if (notified != NULL && notified != self)
        sleeper_nudge(notified);
    return notified == self;
}

/* What it waits for may be held back by slots of those who wait for it, and do not run meanwhile. */
static bool is_in_its_way(struct sti_sleeper *sleeper, const stint_account *account)
{
    const struct sti_sleeper *other;
    if (may_have_slot(sleeper, account))
        return true;
    find_stuck(sleeper, true, FOR_SLOTS);
    TAILQ_FOREACH(other, &sleepers, link)
    {
        if (other->stuck && may_have_slot(other, account))
            return true;
    }
    return false;
}

static bool makes_way(struct sti_sleeper *sleeper)
{
    sti_task *held = find_unbegun(sleeper, true);
    stint_account *account = held != NULL ? sti_admission_account_of(held) : NULL;
    bool makes = account != NULL && is_in_its_way(sleeper, account);
    stint_account_release(account);
    sleeper_let_go(held);
    return makes;
}

/* Those that self waits for, and that may run something over a maximum now that it does. */
static void nudge_held_back(const struct sti_sleeper *self)
{
    struct sti_sleeper *sleeper;
    TAILQ_FOREACH(sleeper, &sleepers, link)
    {
        sti_task *held = sleeper != self ? find_unbegun(sleeper, true) : NULL;
        if (held == NULL)
            continue;
        sti_task_release(held);
        find_stuck(sleeper, true, FOR_SLOTS);
        if (self->stuck)
            sleeper_nudge(sleeper);
    }
}

static void nudge_who_run(const struct sti_sleeper *self)
{
    struct sti_sleeper *sleeper;
    TAILQ_FOREACH(sleeper, &sleepers, link)
    {
        if (sleeper->runs && sleeper != self)
            sleeper_nudge(sleeper);
    }
}

static bool may_be_stuck(const struct sti_sleeper *self, enum sight sight)
{
    suppose_all_stuck(sight);
    return self->stuck && waits_in_vain(self, sight);
}

static enum sti_verdict sleeper_run(struct sti_sleeper *sleeper, bool beyond)
{
    sleeper->beyond = beyond;
    sleeper->found = find_unbegun(sleeper, beyond);
    return sleeper->found != NULL ? STI_RUN : STI_SLEEP_ON;
}

/* What it has just found: if that is gone, it looks again, as others may have counted on it. */
static enum sti_verdict run_or_look_again(struct sti_sleeper *sleeper, bool beyond)
{
    enum sti_verdict verdict = sleeper_run(sleeper, beyond);
    if (verdict == STI_SLEEP_ON)
        atomic_store_explicit(&sleeper->nudged, true, memory_order_relaxed);
    return verdict;
}

static enum sti_verdict sleeper_look(struct sti_sleeper *self)
{
    bool may_be = may_be_stuck(self, FOR_PLACES);
    if (may_be && may_be_stuck(self, FOR_CIRCLES)) {
        find_stuck(NULL, false, FOR_CIRCLES);
        if (self->stuck)
            return is_self_notified(self, FOR_CIRCLES) ? STI_NEVER_ENDS : STI_SLEEP_ON;
    }
    if (makes_way(self))
        return run_or_look_again(self, true);
    if (may_be) {
        find_stuck(NULL, false, FOR_PLACES);
        if (self->runs)
            return run_or_look_again(self, self->beyond);
        nudge_who_run(self);
        if (self->stuck)
            return is_self_notified(self, FOR_PLACES) ? STI_GIVE_UP : STI_SLEEP_ON;
    }
    nudge_held_back(self);
    return all_sleep(self->worker->pool) ? sleeper_run(self, false) : STI_SLEEP_ON;
}

static void sleeper_take_off_list(struct sti_sleeper *sleeper)
{
    if (!sleeper->is_listed)
        return;
    set_stuck(sleeper, false);
    TAILQ_REMOVE(&sleepers, sleeper, link);
    sleeper->is_listed = false;
    sleeper->worker->slept = NULL;
    atomic_fetch_sub_explicit(&listed, 1, memory_order_relaxed);
}

/* It looks again, and so do those who may run what they wait for. */
static void nudge_one_stuck(void)
{
    struct sti_sleeper *sleeper;
    find_stuck(NULL, false, FOR_PLACES);
    nudge_who_run(NULL);
    sleeper = TAILQ_FIRST(&sleepers);
    while (sleeper != NULL && !(sleeper->stuck && can_be_nudged(sleeper)))
        sleeper = TAILQ_NEXT(sleeper, link);
    if (sleeper != NULL)
        sleeper_nudge(sleeper);
}

static void put_on_list(struct sti_sleeper *sleeper)
{
    if (sleeper->is_listed)
        return;
    TAILQ_INSERT_HEAD(&sleepers, sleeper, link);
    sleeper->is_listed = true;
    sleeper->worker->slept = sleeper;
    atomic_fetch_add_explicit(&listed, 1, memory_order_relaxed);
    sti_fence();
}

/* One that is told goes off the list: one of a circle, or of those who are stuck, is enough as a rule. Who is stuck
 * although that one goes on has to be told as well, and nobody else would look: so the one nudges the next. */
enum sti_verdict sti_deadlock_look(struct sti_sleeper *sleeper)
{
    sti_real_mutex_lock(&lock);
    put_on_list(sleeper);
    atomic_store_explicit(&sleeper->nudged, false, memory_order_relaxed);
    enum sti_verdict verdict = sleeper_look(sleeper);
    if (verdict != STI_SLEEP_ON) {
        sleeper_take_off_list(sleeper);
        nudge_one_stuck();
    }
    sti_real_mutex_unlock(&lock);
    return verdict;
}

void sti_deadlock_leave(struct sti_sleeper *sleeper)
{
    sti_real_mutex_lock(&lock);
    sleeper_take_off_list(sleeper);
    sti_real_mutex_unlock(&lock);
}

void sti_deadlock_stir(const stint_pool *pool, sti_task *task)
{
    struct sti_sleeper *sleeper;
    sti_fence();
    bool all = all_sleep(pool);
    bool is_bound = task != NULL && task->options.account != NULL;
    if ((!all && !is_bound) || atomic_load_explicit(&listed, memory_order_relaxed) == 0)
        return;
    sti_real_mutex_lock(&lock);
    stint_account *account = task != NULL ? sti_admission_account_of(task) : NULL;
    TAILQ_FOREACH(sleeper, &sleepers, link)
    {
        if (can_be_nudged(sleeper) &&
            ((all && sleeper->worker->pool == pool && (sleeper->may_run || task != NULL)) ||
             (account != NULL && may_have_slot(sleeper, account)) || (is_bound && waits_for_unbegun(sleeper))))
            sleeper_nudge(sleeper);
    }
    stint_account_release(account);
    sti_real_mutex_unlock(&lock);
}

void sti_deadlock_look_again(void)
{
    sti_fence();
    if (atomic_load_explicit(&listed, memory_order_relaxed) == 0)
        return;
    sti_real_mutex_lock(&lock);
    nudge_one_stuck();
    sti_real_mutex_unlock(&lock);
}

void sti_deadlock_forget(void)
{
    sti_real_mutex_lock(&lock);
    sti_real_mutex_unlock(&lock);
}
