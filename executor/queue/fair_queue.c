/* SPDX-License-Identifier: MIT
 *
 * Where tasks with an account or a priority wait; see fair_queue.h. */
#include "fair_queue.h"

#include <errno.h>
#include <sched.h>

#include "alloc/meter/account.h"
#include "alloc/platform/instrumentation.h"
#include "alloc/platform/module.h"
#include "alloc/platform/process.h"
#include "alloc/scope/context.h"
#include "executor/base/event.h"
#include "executor/base/hooks.h"
#include "executor/base/state.h"
#include "fair_entry.h"
#include "queue_slots.h"

#define PLACES_FOR_ONE_LEFT 8

#define FIRST_COST UINT64_C(100000) /* nanoseconds: what a task is taken to cost before any has ended */

/* What is to be done when the lock is given up, as it may concern others in this room. */
struct afterwards {
    /* Retained; NULL: nothing. It and those above it, up to end, have slots that nobody waits with. */
    stint_account *account;
    stint_account *end;
    bool leave;              /* the account, which was entered in vain */
    stint_account *notified; /* retained; NULL: none. It had a slot for one that cannot use it */
    bool waiting_slot;       /* more tasks of some account may wait */
};

static void do_afterwards(const struct afterwards *afterwards)
{
    if (afterwards->leave)
        sti_account_leave(afterwards->account, NULL);
    else if (afterwards->account != NULL)
        sti_account_notify(afterwards->account, afterwards->end);
    if (afterwards->notified != NULL)
        sti_account_notify_itself(afterwards->notified);
    if (afterwards->waiting_slot)
        sti_hooks.account_has_waiting_slot();
    stint_account_release(afterwards->account);
    stint_account_release(afterwards->notified);
}

/* --- Putting in --------------------------------------------------------------------------------------------------- */

static int fair_queue_put(struct sti_fair_queue *fair_queue, sti_task *task)
{
    size_t waiting = sti_fair_number_get(&fair_queue->waiting);
    if (fair_queue->closed)
        return ESHUTDOWN;
    if (waiting == fair_queue->capacity)
        return EAGAIN;
    stint_account *account = task->options.account;
    struct sti_fair_entry *fair_entry = sti_fair_entry_find(fair_queue, account, task->options.priority);
    if (fair_entry != NULL && fair_entry->count >= (fair_queue->capacity - waiting) * PLACES_FOR_ONE_LEFT)
        return EAGAIN;
    if (!sti_account_begin_waiting(account))
        return EDQUOT;
    fair_entry = sti_fair_entry_find_or_make(fair_queue, account, task->options.priority);
    if (fair_entry == NULL) {
        sti_account_end_waiting(account);
        return ENOMEM;
    }
    if (fair_entry->state == STI_FAIR_ENTRY_IDLE)
        sti_fair_entry_begin_ready(fair_queue, fair_entry);
    task->fair_entry = fair_entry;
    TAILQ_INSERT_TAIL(&fair_entry->tasks, task, fair_link);
    fair_entry->count++;
    sti_fair_number_set(&fair_queue->waiting, waiting + 1);
    if (fair_entry->state == STI_FAIR_ENTRY_HELD)
        sti_fair_number_set(&fair_queue->held, sti_fair_number_get(&fair_queue->held) + 1);
    sti_task_offer(task); /* from now on it can be claimed; who does takes it out under the lock */
    return 0;
}

int sti_fair_queue_put(struct sti_fair_queue *fair_queue, sti_task *task)
{
    sti_real_mutex_lock(&fair_queue->lock);
    int error = fair_queue_put(fair_queue, task);
    sti_real_mutex_unlock(&fair_queue->lock);
    return error;
}

/* --- Taking out --------------------------------------------------------------------------------------------------- */

/* The entry was made ready for a slot of an account. If there still is one, it is for another now. */
static void fair_queue_notify_others(struct sti_fair_entry *fair_entry, struct afterwards *afterwards)
{
    stint_account *notified = fair_entry->notified;
    fair_entry->notified = NULL;
    if (notified != NULL && sti_account_has_slot(notified) && afterwards->notified == NULL)
        afterwards->notified = stint_account_retain(notified);
}

/* One that has nothing left to run. */
static void end_waiting(struct sti_fair_queue *fair_queue, struct sti_fair_entry *fair_entry,
                        struct afterwards *afterwards)
{
    fair_queue_notify_others(fair_entry, afterwards);
    if (fair_entry->granted) {
        fair_entry->granted = false;
        afterwards->account = stint_account_retain(fair_entry->key.account);
        afterwards->leave = true;
    }
    sti_fair_entry_begin_idle(fair_queue, fair_entry);
}

static void fair_queue_take_out(struct sti_fair_queue *fair_queue, sti_task *task, struct afterwards *afterwards)
{
    struct sti_fair_entry *fair_entry = task->fair_entry;
    TAILQ_REMOVE(&fair_entry->tasks, task, fair_link);
    if (fair_entry->state == STI_FAIR_ENTRY_HELD)
        sti_fair_number_set(&fair_queue->held, sti_fair_number_get(&fair_queue->held) - 1);
    if (sti_account_end_waiting(task->options.account))
        afterwards->waiting_slot = true;
    if (--fair_entry->count == 0)
        end_waiting(fair_queue, fair_entry, afterwards);
    size_t waiting = sti_fair_number_get(&fair_queue->waiting) - 1;
    sti_fair_number_set(&fair_queue->waiting, waiting);
    if (waiting == 0 && fair_queue->closed)
        sti_above.notify_all(fair_queue->pool);
}

/* A claimed one whose account has been entered. */
static void fair_queue_start(struct sti_fair_queue *fair_queue, sti_task *task, bool in_turn,
                             struct afterwards *afterwards)
{
    sti_account_count_start(task->options.account, NULL);
    task->entered = true;
    task->bill = sti_fair_entry_begin_task(fair_queue, task->fair_entry, in_turn);
    fair_queue_notify_others(task->fair_entry, afterwards);
    fair_queue_take_out(fair_queue, task, afterwards);
}

void sti_fair_queue_remove(struct sti_fair_queue *fair_queue, sti_task *task)
{
    struct afterwards afterwards = { .account = NULL };
    sti_real_mutex_lock(&fair_queue->lock);
    sti_task_count_unstarted(task, fair_queue->pool->outcomes);
    fair_queue_take_out(fair_queue, task, &afterwards);
    struct sti_queue_slots *queue_slots = &fair_queue->pool->queue_slots;
    bool wanted = sti_queue_slots_are_wanted(queue_slots);
    if (wanted)
        sti_queue_slots_keep(queue_slots, 1);
    sti_real_mutex_unlock(&fair_queue->lock);
    do_afterwards(&afterwards);
    if (wanted) {
        sti_queue_slots_fill(fair_queue->pool);
        sti_queue_slots_keep(queue_slots, -1);
    }
}

static sti_task *claim_oldest(const struct sti_fair_entry *fair_entry)
{
    sti_task *task = TAILQ_FIRST(&fair_entry->tasks);
    while (task != NULL && !sti_task_claim(task))
        task = TAILQ_NEXT(task, fair_link);
    return task;
}

/* account.c says why it has to try again once it waits. */
static bool enter_or_hold_back(struct sti_fair_queue *fair_queue, struct sti_fair_entry *fair_entry,
                               struct afterwards *afterwards)
{
    stint_account *account = fair_entry->key.account;
    stint_account *refused = NULL;
    stint_account *full = fair_entry->granted ? NULL : sti_account_try_enter(account);
    fair_entry->granted = false;
    while (full != NULL && full != refused) {
        if (refused != NULL)
            sti_account_await_no_more(refused);
        /* Below the highest one that refused, slots were taken for a moment. */
        if (full != account && (afterwards->end == NULL || sti_account_contains(full, afterwards->end)))
            afterwards->end = full;
        sti_account_await(full);
        refused = full;
        full = sti_account_try_enter(account);
    }
    if (afterwards->end != NULL)
        afterwards->account = stint_account_retain(account);
    if (full == NULL && refused != NULL)
        sti_account_await_no_more(refused);
    if (full != NULL) {
        sti_fair_entry_hold_back(fair_queue, fair_entry, full);
        fair_queue_notify_others(fair_entry, afterwards);
    }
    return full == NULL;
}

/* Of one whose tasks have all been claimed by others, who are about to take them out. */
static void fair_queue_leave_again(struct sti_fair_entry *fair_entry, struct afterwards *afterwards)
{
    if (fair_entry->key.account == NULL)
        return;
    if (afterwards->account == NULL)
        afterwards->account = stint_account_retain(fair_entry->key.account);
    afterwards->leave = true;
}

static sti_task *fair_queue_take_turn(struct sti_fair_queue *fair_queue, struct sti_fair_entry *fair_entry,
                                      struct afterwards *afterwards)
{
    bool entered = enter_or_hold_back(fair_queue, fair_entry, afterwards);
    sti_task *task = entered ? claim_oldest(fair_entry) : NULL;
    if (task != NULL)
        fair_queue_start(fair_queue, task, true, afterwards);
    else if (entered)
        fair_queue_leave_again(fair_entry, afterwards);
    return task;
}

static bool has_to_stop(const struct afterwards *afterwards)
{
    return afterwards->account != NULL || afterwards->notified != NULL;
}

static sti_task *take_turns(struct sti_fair_queue *fair_queue, struct sti_fair_entry_ring *ring,
                            struct afterwards *afterwards)
{
    sti_task *task = NULL;
    struct sti_turn *passed = NULL;
    while (task == NULL && ring->turns.first != NULL && !has_to_stop(afterwards)) {
        struct sti_turn *turn = ring->turns.first;
        task = fair_queue_take_turn(fair_queue, sti_fair_entry_of(turn), afterwards);
        if (task == NULL && ring->turns.first == turn) {
            /* There is nothing to take: look past it. */
            sti_turns_remove(&ring->turns, turn);
            turn->next = passed;
            passed = turn;
        }
    }
    sti_fair_entry_put_back(ring, passed);
    return task;
}

sti_task *sti_fair_queue_take(struct sti_fair_queue *fair_queue, stint_priority priority, bool no_plain)
{
    struct afterwards afterwards;
    sti_task *task;
    do {
        if (sti_fair_queue_ready(fair_queue, priority) == 0)
            return NULL;
        afterwards = (struct afterwards){ .account = NULL };
        sti_real_mutex_lock(&fair_queue->lock);
        if (no_plain)
            sti_fair_entry_lift_plain(fair_queue);
        task = take_turns(fair_queue, &fair_queue->rings[priority], &afterwards);
        sti_real_mutex_unlock(&fair_queue->lock);
        do_afterwards(&afterwards);
    } while (task == NULL && has_to_stop(&afterwards) && !afterwards.leave);
    return task;
}

static bool take_awaited(struct sti_fair_queue *fair_queue, sti_task *task, bool beyond, struct afterwards *afterwards)
{
    struct sti_fair_entry *fair_entry = task->fair_entry;
    stint_account *account = task->options.account;
    stint_account *full = fair_entry->granted ? NULL : sti_account_try_enter(account);
    fair_entry->granted = false;
    if (full != NULL && !beyond && !sti_scope_is_in_account(full)) {
        *afterwards = (struct afterwards){ .account = stint_account_retain(account), .end = full };
        return false;
    }
    if (full != NULL)
        sti_account_enter_beyond(account);
    if (!sti_task_claim(task)) {
        *afterwards = (struct afterwards){ .account = stint_account_retain(account), .leave = account != NULL };
        return false;
    }
    fair_queue_start(fair_queue, task, false, afterwards);
    return true;
}

bool sti_fair_queue_take_awaited(struct sti_fair_queue *fair_queue, sti_task *task, bool beyond)
{
    struct afterwards afterwards = { .account = NULL };
    sti_real_mutex_lock(&fair_queue->lock);
    /* While it is queued and the lock is held it stays here, even if somebody claims it: so its account lives. */
    bool taken = sti_task_is_queued(task) && take_awaited(fair_queue, task, beyond, &afterwards);
    sti_real_mutex_unlock(&fair_queue->lock);
    do_afterwards(&afterwards);
    return taken;
}

bool sti_fair_queue_is_full_of(struct sti_fair_queue *fair_queue, bool (*is_it)(const stint_account *account))
{
    const struct sti_fair_entry *fair_entry;
    sti_real_mutex_lock(&fair_queue->lock);
    bool full = sti_fair_queue_waiting(fair_queue) == fair_queue->capacity;
    LIST_FOREACH(fair_entry, &fair_queue->entries, link)
    full = full && (fair_entry->count == 0 || is_it(fair_entry->key.account));
    sti_real_mutex_unlock(&fair_queue->lock);
    return full;
}

stint_account *sti_fair_queue_account_of(struct sti_fair_queue *fair_queue, sti_task *task)
{
    sti_real_mutex_lock(&fair_queue->lock);
    stint_account *account = sti_task_is_queued(task) ? stint_account_retain(task->options.account) : NULL;
    sti_real_mutex_unlock(&fair_queue->lock);
    return account;
}

sti_task *sti_fair_queue_take_any(struct sti_fair_queue *fair_queue)
{
    struct afterwards afterwards = { .account = NULL };
    sti_task *task = NULL;
    sti_real_mutex_lock(&fair_queue->lock);
    const struct sti_fair_entry *fair_entry;
    LIST_FOREACH(fair_entry, &fair_queue->entries, link)
    {
        if ((task = claim_oldest(fair_entry)) != NULL)
            break;
    }
    if (task != NULL)
        fair_queue_take_out(fair_queue, task, &afterwards);
    sti_real_mutex_unlock(&fair_queue->lock);
    do_afterwards(&afterwards);
    return task;
}

void sti_fair_queue_look(struct sti_fair_queue *fair_queue, void (*look)(void *task, void *arg), void *arg)
{
    sti_real_mutex_lock(&fair_queue->lock);
    const struct sti_fair_entry *fair_entry;
    sti_task *task;
    LIST_FOREACH(fair_entry, &fair_queue->entries, link)
    {
        TAILQ_FOREACH(task, &fair_entry->tasks, fair_link)
        look(task, arg);
    }
    sti_real_mutex_unlock(&fair_queue->lock);
}

/* --- What is charged ---------------------------------------------------------------------------------------------- */

struct sti_bill sti_fair_queue_bill_plain(struct sti_fair_queue *fair_queue)
{
    sti_real_mutex_lock(&fair_queue->lock);
    struct sti_bill made = sti_fair_entry_begin_task(fair_queue, fair_queue->plain, true);
    sti_real_mutex_unlock(&fair_queue->lock);
    return made;
}

struct sti_bill sti_fair_queue_bill_fork(struct sti_fair_queue *fair_queue, const stint_account *account,
                                         stint_priority priority)
{
    struct sti_bill made = { .fair_entry = NULL };
    bool plain = account == NULL && priority == STINT_PRIORITY_NORMAL;
    sti_real_mutex_lock(&fair_queue->lock);
    struct sti_fair_entry *fair_entry = plain ? fair_queue->plain : sti_fair_entry_find(fair_queue, account, priority);
    if (fair_entry != NULL && (plain || fair_entry->running > 0))
        made = sti_fair_entry_begin_task(fair_queue, fair_entry, false);
    sti_real_mutex_unlock(&fair_queue->lock);
    return made;
}

void sti_fair_queue_advance(struct sti_fair_queue *fair_queue, struct sti_bill *bill, uint64_t used_ns)
{
    if (used_ns <= bill->charged)
        return;
    sti_real_mutex_lock(&fair_queue->lock);
    sti_fair_entry_advance_task(fair_queue, bill, used_ns);
    sti_real_mutex_unlock(&fair_queue->lock);
}

void sti_fair_queue_settle(struct sti_fair_queue *fair_queue, struct sti_bill settled, uint64_t used_ns)
{
    sti_real_mutex_lock(&fair_queue->lock);
    sti_fair_entry_end_task(fair_queue, &settled, used_ns);
    sti_real_mutex_unlock(&fair_queue->lock);
}

/* --- Slots that are free again ------------------------------------------------------------------------------------ */

/* NULL: none is held back for it. */
static struct sti_fair_entry *longest_refused(const struct sti_fair_queue *fair_queue, const stint_account *account)
{
    const struct sti_refused *refused = sti_fair_entry_refused_by(fair_queue, account);
    struct sti_fair_entry *longest = NULL;
    for (size_t i = 0; refused != NULL && i < STI_PRIORITIES; i++) {
        struct sti_turn *first = refused->held[i].first;
        if (first != NULL && (longest == NULL || sti_fair_entry_of(first)->since < longest->since))
            longest = sti_fair_entry_of(first);
    }
    return longest;
}

uint64_t sti_fair_queue_refused_since(struct sti_fair_queue *fair_queue, const stint_account *account)
{
    sti_real_mutex_lock(&fair_queue->lock);
    const struct sti_fair_entry *longest = longest_refused(fair_queue, account);
    uint64_t since = longest != NULL ? longest->since : 0;
    sti_real_mutex_unlock(&fair_queue->lock);
    return since;
}

static void make_ready(struct sti_fair_queue *fair_queue, struct sti_fair_entry *fair_entry)
{
    sti_fair_entry_end_holding_back(fair_queue, fair_entry);
    sti_fair_entry_begin_ready(fair_queue, fair_entry);
}

bool sti_fair_queue_release(struct sti_fair_queue *fair_queue, const stint_account *account)
{
    bool any = false;
    sti_real_mutex_lock(&fair_queue->lock);
    for (size_t i = 0; i < STI_PRIORITIES; i++) {
        const struct sti_refused *refused = sti_fair_entry_refused_by(fair_queue, account);
        if (refused == NULL || refused->held[i].first == NULL)
            continue;
        struct sti_fair_entry *fair_entry = sti_fair_entry_of(refused->held[i].first);
        fair_entry->notified = refused->key.account;
        make_ready(fair_queue, fair_entry);
        any = true;
    }
    sti_real_mutex_unlock(&fair_queue->lock);
    return any;
}

bool sti_fair_queue_grant(struct sti_fair_queue *fair_queue, const stint_account *account, struct sti_slots *tried)
{
    sti_real_mutex_lock(&fair_queue->lock);
    struct sti_fair_entry *fair_entry = longest_refused(fair_queue, account);
    stint_account *full = fair_entry != NULL ? sti_account_try_enter(fair_entry->key.account) : NULL;
    if (fair_entry != NULL && full != NULL)
        *tried = (struct sti_slots){ .account = stint_account_retain(fair_entry->key.account), .end = full };
    /* Where it is another account that has none, a worker finds out, and holds it back for that. */
    if (fair_entry != NULL && full != account) {
        fair_entry->granted = full == NULL;
        fair_entry->notified = full == NULL ? NULL : fair_entry->refused->key.account;
        make_ready(fair_queue, fair_entry);
    }
    sti_real_mutex_unlock(&fair_queue->lock);
    return fair_entry != NULL && full != account;
}

/* The first that has a slot, or was told of one: not any more. False: there is none. */
static bool take_slot_from_one(const struct sti_fair_queue *fair_queue, struct afterwards *afterwards)
{
    struct sti_fair_entry *fair_entry;
    LIST_FOREACH(fair_entry, &fair_queue->entries, link)
    {
        if (!fair_entry->granted && fair_entry->notified == NULL)
            continue;
        fair_queue_notify_others(fair_entry, afterwards);
        if (fair_entry->granted)
            fair_queue_leave_again(fair_entry, afterwards);
        fair_entry->granted = false;
        return true;
    }
    return false;
}

void sti_fair_queue_pass_on(struct sti_fair_queue *fair_queue)
{
    sti_fence();
    bool any = sti_fair_queue_are_ready(fair_queue);
    while (any) {
        struct afterwards afterwards = { .account = NULL };
        sti_real_mutex_lock(&fair_queue->lock);
        any = take_slot_from_one(fair_queue, &afterwards);
        sti_real_mutex_unlock(&fair_queue->lock);
        do_afterwards(&afterwards);
    }
}

/* --- Life --------------------------------------------------------------------------------------------------------- */

bool sti_fair_queue_init(struct sti_fair_queue *fair_queue, stint_pool *pool, size_t capacity)
{
    fair_queue->pool = pool;
    fair_queue->typical_cost = FIRST_COST;
    fair_queue->capacity = capacity;
    if (!sti_fair_entry_table_init(fair_queue))
        return false;
    fair_queue->plain = sti_process_malloc(sizeof *fair_queue->plain);
    if (fair_queue->plain == NULL) {
        sti_fair_entry_table_end(fair_queue);
        return false;
    }
    *fair_queue->plain = (struct sti_fair_entry){ .key.kind = STINT_PRIORITY_NORMAL, .cost = FIRST_COST };
    TAILQ_INIT(&fair_queue->plain->tasks);
    sti_mutex_init_brief(&fair_queue->lock);
    return true;
}

void sti_fair_queue_await(struct sti_fair_queue *fair_queue)
{
    sti_real_mutex_lock(&fair_queue->lock);
    while (sti_fair_queue_waiting(fair_queue) > 0) {
        sti_real_mutex_unlock(&fair_queue->lock);
        sched_yield();
        sti_real_mutex_lock(&fair_queue->lock);
    }
    sti_real_mutex_unlock(&fair_queue->lock);
}

void sti_fair_queue_end(struct sti_fair_queue *fair_queue)
{
    pthread_mutex_destroy(&fair_queue->lock);
    sti_fair_entry_table_end(fair_queue);
    sti_process_free(fair_queue->plain);
}

void sti_fair_queue_close(struct sti_fair_queue *fair_queue)
{
    sti_real_mutex_lock(&fair_queue->lock);
    fair_queue->closed = true;
    sti_real_mutex_unlock(&fair_queue->lock);
}
