/* SPDX-License-Identifier: MIT
 *
 * Where tasks with an account or a priority wait; see tenants.h. */
#include "tenants.h"

#include <errno.h>
#include <sched.h>

#include "alloc/base/libc.h"
#include "alloc/base/process.h"
#include "alloc/charge/account.h"
#include "alloc/scope/scope.h"
#include "executor/pool/pool_state.h"
#include "executor/pool/pools.h"
#include "executor/worker/park.h"
#include "tenant.h"

#define PLACES_FOR_ONE_LEFT 8

#define FIRST_COST UINT64_C(100000) /* nanoseconds: what a task is taken to cost before any has ended */

/* release: who reads that none waits any more may take it that those who took them out are done. */
static void set(atomic_size_t *number, size_t value)
{
    atomic_store_explicit(number, value, memory_order_release);
}

static size_t get(atomic_size_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

/* What is to be done when the lock is given up, as it may concern others in this room. */
struct afterwards {
    stint_account
        *account; /* retained; NULL: nothing. It and those above it, up to end, have slots that nobody waits with */
    stint_account *end;
    bool leave;          /* the account, which was entered in vain */
    stint_account *told; /* retained; NULL: none. It had a slot for one that cannot use it */
    bool place;          /* more tasks of some account may wait */
};

static void do_afterwards(const struct afterwards *afterwards)
{
    if (afterwards->leave)
        sti_account_leave(afterwards->account, NULL);
    else if (afterwards->account != NULL)
        sti_account_tell(afterwards->account, afterwards->end);
    if (afterwards->told != NULL)
        sti_account_tell_itself(afterwards->told);
    if (afterwards->place)
        sti_pools_fill();
    stint_account_release(afterwards->account);
    stint_account_release(afterwards->told);
}

/* --- Putting in --------------------------------------------------------------------------------------------------- */

static int put(struct sti_tenants *tenants, sti_task *task)
{
    size_t waiting = get(&tenants->waiting);
    if (tenants->closed)
        return ESHUTDOWN;
    if (waiting == tenants->capacity)
        return EAGAIN;
    stint_account *account = task->options.account;
    struct sti_tenant *tenant = sti_tenant_find(tenants, account, task->options.priority);
    if (tenant != NULL && tenant->count >= (tenants->capacity - waiting) * PLACES_FOR_ONE_LEFT)
        return EAGAIN;
    if (!sti_account_begin_waiting(account))
        return EDQUOT;
    tenant = sti_tenant_find_or_make(tenants, account, task->options.priority);
    if (tenant == NULL) {
        sti_account_end_waiting(account);
        return ENOMEM;
    }
    if (tenant->state == STI_TENANT_IDLE)
        sti_tenant_begin_ready(tenants, tenant);
    task->tenant = tenant;
    task->older = tenant->newest;
    task->newer = NULL;
    *(tenant->newest != NULL ? &tenant->newest->newer : &tenant->oldest) = task;
    tenant->newest = task;
    tenant->count++;
    set(&tenants->waiting, waiting + 1);
    if (tenant->state == STI_TENANT_HELD)
        set(&tenants->held, get(&tenants->held) + 1);
    sti_task_offer(task); /* from now on it can be claimed; who does takes it out under the lock */
    return 0;
}

int sti_tenants_put(struct sti_tenants *tenants, sti_task *task)
{
    sti_plain_mutex_lock(&tenants->lock);
    int error = put(tenants, task);
    sti_plain_mutex_unlock(&tenants->lock);
    return error;
}

/* --- Taking out --------------------------------------------------------------------------------------------------- */

/* The tenant was made ready for a slot of an account. If there still is one, it is for another now. */
static void tell_others(struct sti_tenant *tenant, struct afterwards *afterwards)
{
    stint_account *told = tenant->told;
    tenant->told = NULL;
    if (told != NULL && sti_account_has_slot(told) && afterwards->told == NULL)
        afterwards->told = stint_account_retain(told);
}

/* One that has nothing left to run. */
static void end_waiting(struct sti_tenants *tenants, struct sti_tenant *tenant, struct afterwards *afterwards)
{
    tell_others(tenant, afterwards);
    if (tenant->granted) {
        tenant->granted = false;
        afterwards->account = stint_account_retain(tenant->account);
        afterwards->leave = true;
    }
    sti_tenant_begin_idle(tenants, tenant);
}

static void take_out(struct sti_tenants *tenants, sti_task *task, struct afterwards *afterwards)
{
    struct sti_tenant *tenant = task->tenant;
    *(task->older != NULL ? &task->older->newer : &tenant->oldest) = task->newer;
    *(task->newer != NULL ? &task->newer->older : &tenant->newest) = task->older;
    if (tenant->state == STI_TENANT_HELD)
        set(&tenants->held, get(&tenants->held) - 1);
    if (sti_account_end_waiting(task->options.account))
        afterwards->place = true;
    if (--tenant->count == 0)
        end_waiting(tenants, tenant, afterwards);
    size_t waiting = get(&tenants->waiting) - 1;
    set(&tenants->waiting, waiting);
    if (waiting == 0 && tenants->closed)
        sti_park_notify_all(tenants->pool);
}

/* A claimed one whose account has been entered. */
static void start(struct sti_tenants *tenants, sti_task *task, bool in_turn, struct afterwards *afterwards)
{
    sti_account_count_start(task->options.account, NULL);
    task->entered = true;
    task->charged = sti_tenant_begin_task(tenants, task->tenant, in_turn);
    tell_others(task->tenant, afterwards);
    take_out(tenants, task, afterwards);
}

void sti_tenants_remove(struct sti_tenants *tenants, sti_task *task)
{
    struct afterwards afterwards = { .account = NULL };
    sti_plain_mutex_lock(&tenants->lock);
    sti_task_count_unstarted(task, &tenants->pool->tally);
    take_out(tenants, task, &afterwards);
    bool wanted = sti_places_are_wanted(&tenants->pool->places);
    tenants->leaving += wanted;
    sti_plain_mutex_unlock(&tenants->lock);
    do_afterwards(&afterwards);
    if (!wanted)
        return;
    sti_places_fill(tenants->pool);
    sti_plain_mutex_lock(&tenants->lock);
    tenants->leaving--;
    sti_plain_mutex_unlock(&tenants->lock);
}

static sti_task *claim_oldest(const struct sti_tenant *tenant)
{
    sti_task *task = tenant->oldest;
    while (task != NULL && !sti_task_claim(task))
        task = task->newer;
    return task;
}

/* account.c says why it has to try again once it waits. */
static bool enter_or_hold_back(struct sti_tenants *tenants, struct sti_tenant *tenant, struct afterwards *afterwards)
{
    stint_account *account = tenant->account;
    stint_account *refused = NULL;
    stint_account *full = tenant->granted ? NULL : sti_account_try_enter(account);
    tenant->granted = false;
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
        sti_tenant_hold_back(tenants, tenant, full);
        tell_others(tenant, afterwards);
    }
    return full == NULL;
}

/* Of one whose tasks have all been claimed by others, who are about to take them out. */
static void leave_again(struct sti_tenant *tenant, struct afterwards *afterwards)
{
    if (tenant->account == NULL)
        return;
    if (afterwards->account == NULL)
        afterwards->account = stint_account_retain(tenant->account);
    afterwards->leave = true;
}

static sti_task *take_turn(struct sti_tenants *tenants, struct sti_tenant *tenant, struct afterwards *afterwards)
{
    bool entered = enter_or_hold_back(tenants, tenant, afterwards);
    sti_task *task = entered ? claim_oldest(tenant) : NULL;
    if (task != NULL)
        start(tenants, task, true, afterwards);
    else if (entered)
        leave_again(tenant, afterwards);
    return task;
}

static bool has_to_stop(const struct afterwards *afterwards)
{
    return afterwards->account != NULL || afterwards->told != NULL;
}

static sti_task *take_turns(struct sti_tenants *tenants, struct sti_tenant_ring *ring, struct afterwards *afterwards)
{
    sti_task *task = NULL;
    struct sti_turn *passed = NULL;
    while (task == NULL && ring->turns.first != NULL && !has_to_stop(afterwards)) {
        struct sti_turn *turn = ring->turns.first;
        task = take_turn(tenants, sti_tenant_of(turn), afterwards);
        if (task == NULL && ring->turns.first == turn) {
            /* There is nothing to take: look past it. */
            sti_turns_remove(&ring->turns, turn);
            turn->next = passed;
            passed = turn;
        }
    }
    sti_tenant_put_back(ring, passed);
    return task;
}

sti_task *sti_tenants_take(struct sti_tenants *tenants, stint_priority priority, bool no_plain)
{
    struct afterwards afterwards;
    sti_task *task;
    do {
        if (sti_tenants_ready(tenants, priority) == 0)
            return NULL;
        afterwards = (struct afterwards){ .account = NULL };
        sti_plain_mutex_lock(&tenants->lock);
        if (no_plain)
            sti_tenant_lift_plain(tenants);
        task = take_turns(tenants, &tenants->rings[priority], &afterwards);
        sti_plain_mutex_unlock(&tenants->lock);
        do_afterwards(&afterwards);
    } while (task == NULL && has_to_stop(&afterwards) && !afterwards.leave);
    return task;
}

static bool take_awaited(struct sti_tenants *tenants, sti_task *task, bool beyond, struct afterwards *afterwards)
{
    struct sti_tenant *tenant = task->tenant;
    stint_account *account = task->options.account;
    stint_account *full = tenant->granted ? NULL : sti_account_try_enter(account);
    tenant->granted = false;
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
    start(tenants, task, false, afterwards);
    return true;
}

bool sti_tenants_take_awaited(struct sti_tenants *tenants, sti_task *task, bool beyond)
{
    struct afterwards afterwards = { .account = NULL };
    sti_plain_mutex_lock(&tenants->lock);
    /* While it is queued and the lock is held it stays here, even if somebody claims it: so its account lives. */
    bool taken = sti_task_is_queued(task) && take_awaited(tenants, task, beyond, &afterwards);
    sti_plain_mutex_unlock(&tenants->lock);
    do_afterwards(&afterwards);
    return taken;
}

stint_account *sti_tenants_account_of(struct sti_tenants *tenants, sti_task *task)
{
    sti_plain_mutex_lock(&tenants->lock);
    stint_account *account = sti_task_is_queued(task) ? stint_account_retain(task->options.account) : NULL;
    sti_plain_mutex_unlock(&tenants->lock);
    return account;
}

sti_task *sti_tenants_take_any(struct sti_tenants *tenants)
{
    struct afterwards afterwards = { .account = NULL };
    sti_task *task = NULL;
    sti_plain_mutex_lock(&tenants->lock);
    for (size_t i = 0; i < tenants->table_size && task == NULL; i++) {
        for (struct sti_tenant *tenant = tenants->table[i]; tenant != NULL && task == NULL; tenant = tenant->chain)
            task = claim_oldest(tenant);
    }
    if (task != NULL)
        take_out(tenants, task, &afterwards);
    sti_plain_mutex_unlock(&tenants->lock);
    do_afterwards(&afterwards);
    return task;
}

void sti_tenants_look(struct sti_tenants *tenants, void (*look)(void *task, void *arg), void *arg)
{
    sti_plain_mutex_lock(&tenants->lock);
    for (size_t i = 0; i < tenants->table_size; i++) {
        for (const struct sti_tenant *tenant = tenants->table[i]; tenant != NULL; tenant = tenant->chain) {
            for (sti_task *task = tenant->oldest; task != NULL; task = task->newer)
                look(task, arg);
        }
    }
    sti_plain_mutex_unlock(&tenants->lock);
}

/* --- What is charged ---------------------------------------------------------------------------------------------- */

static struct sti_bill bill(struct sti_tenants *tenants, struct sti_tenant *tenant, bool in_turn)
{
    return (struct sti_bill){ .tenant = tenant, .charged = sti_tenant_begin_task(tenants, tenant, in_turn) };
}

struct sti_bill sti_tenants_bill_plain(struct sti_tenants *tenants)
{
    sti_plain_mutex_lock(&tenants->lock);
    struct sti_bill made = bill(tenants, tenants->plain, true);
    sti_plain_mutex_unlock(&tenants->lock);
    return made;
}

struct sti_bill sti_tenants_bill_fork(struct sti_tenants *tenants, const stint_account *account,
                                      stint_priority priority)
{
    struct sti_bill made = { .tenant = NULL };
    bool plain = account == NULL && priority == STINT_PRIORITY_NORMAL;
    sti_plain_mutex_lock(&tenants->lock);
    struct sti_tenant *tenant = plain ? tenants->plain : sti_tenant_find(tenants, account, priority);
    if (tenant != NULL && (plain || tenant->running > 0))
        made = bill(tenants, tenant, false);
    sti_plain_mutex_unlock(&tenants->lock);
    return made;
}

void sti_tenants_settle(struct sti_tenants *tenants, struct sti_bill settled, uint64_t used_ns)
{
    sti_plain_mutex_lock(&tenants->lock);
    sti_tenant_end_task(tenants, settled.tenant, settled.charged, used_ns);
    sti_plain_mutex_unlock(&tenants->lock);
}

/* --- Slots that are free again ------------------------------------------------------------------------------------ */

/* NULL: none is held back for it. */
static struct sti_tenant *longest_refused(const struct sti_tenants *tenants, const stint_account *account)
{
    const struct sti_refused *refused = sti_tenant_refused_by(tenants, account);
    struct sti_tenant *longest = NULL;
    for (size_t i = 0; refused != NULL && i < STI_PRIORITIES; i++) {
        struct sti_tenant *first = sti_tenant_of(refused->held[i].first);
        if (first != NULL && (longest == NULL || first->since < longest->since))
            longest = first;
    }
    return longest;
}

uint64_t sti_tenants_refused_since(struct sti_tenants *tenants, const stint_account *account)
{
    sti_plain_mutex_lock(&tenants->lock);
    const struct sti_tenant *longest = longest_refused(tenants, account);
    uint64_t since = longest != NULL ? longest->since : 0;
    sti_plain_mutex_unlock(&tenants->lock);
    return since;
}

static void make_ready(struct sti_tenants *tenants, struct sti_tenant *tenant)
{
    sti_tenant_end_holding_back(tenants, tenant);
    sti_tenant_begin_ready(tenants, tenant);
}

bool sti_tenants_release(struct sti_tenants *tenants, const stint_account *account)
{
    bool any = false;
    sti_plain_mutex_lock(&tenants->lock);
    for (size_t i = 0; i < STI_PRIORITIES; i++) {
        const struct sti_refused *refused = sti_tenant_refused_by(tenants, account);
        if (refused == NULL || refused->held[i].first == NULL)
            continue;
        struct sti_tenant *tenant = sti_tenant_of(refused->held[i].first);
        tenant->told = refused->full;
        make_ready(tenants, tenant);
        any = true;
    }
    sti_plain_mutex_unlock(&tenants->lock);
    return any;
}

bool sti_tenants_grant(struct sti_tenants *tenants, const stint_account *account, struct sti_slots *tried)
{
    sti_plain_mutex_lock(&tenants->lock);
    struct sti_tenant *tenant = longest_refused(tenants, account);
    stint_account *full = tenant != NULL ? sti_account_try_enter(tenant->account) : NULL;
    if (tenant != NULL && full != NULL)
        *tried = (struct sti_slots){ .account = stint_account_retain(tenant->account), .end = full };
    /* Where it is another account that has none, a worker finds out, and holds it back for that. */
    if (tenant != NULL && full != account) {
        tenant->granted = full == NULL;
        tenant->told = full == NULL ? NULL : tenant->refused->full;
        make_ready(tenants, tenant);
    }
    sti_plain_mutex_unlock(&tenants->lock);
    return tenant != NULL && full != account;
}

/* --- Life --------------------------------------------------------------------------------------------------------- */

bool sti_tenants_init(struct sti_tenants *tenants, stint_pool *pool, size_t capacity)
{
    tenants->pool = pool;
    for (size_t i = 0; i < STI_PRIORITIES; i++) {
        tenants->rings[i] = (struct sti_tenant_ring){ .now = 0 };
        atomic_init(&tenants->rings[i].ready, 0);
        atomic_init(&tenants->rings[i].first, 0);
    }
    atomic_init(&tenants->ready, 0);
    atomic_init(&tenants->waiting, 0);
    atomic_init(&tenants->held, 0);
    atomic_init(&tenants->plain_time, 0);
    tenants->typical_cost = FIRST_COST;
    tenants->capacity = capacity;
    tenants->leaving = 0;
    tenants->closed = false;
    if (!sti_tenant_tables_init(tenants))
        return false;
    tenants->plain = sti_process_malloc(sizeof *tenants->plain);
    if (tenants->plain == NULL) {
        sti_tenant_tables_end(tenants);
        return false;
    }
    *tenants->plain = (struct sti_tenant){ .priority = STINT_PRIORITY_NORMAL, .cost = FIRST_COST };
    pthread_mutex_init(&tenants->lock, NULL);
    return true;
}

void sti_tenants_end(struct sti_tenants *tenants)
{
    sti_plain_mutex_lock(&tenants->lock);
    while (sti_tenants_waiting(tenants) > 0 || tenants->leaving > 0) {
        sti_plain_mutex_unlock(&tenants->lock);
        sched_yield();
        sti_plain_mutex_lock(&tenants->lock);
    }
    sti_plain_mutex_unlock(&tenants->lock);
    pthread_mutex_destroy(&tenants->lock);
    sti_tenant_tables_end(tenants);
    sti_process_free(tenants->plain);
}

void sti_tenants_close(struct sti_tenants *tenants)
{
    sti_plain_mutex_lock(&tenants->lock);
    tenants->closed = true;
    sti_plain_mutex_unlock(&tenants->lock);
}
