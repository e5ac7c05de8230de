/* SPDX-License-Identifier: MIT
 *
 * Where tasks with an account or a priority wait; see tenants.h. */
#include "tenants.h"

#include <errno.h>
#include <sched.h>

#include "alloc/account.h"
#include "alloc/plain_lock.h"
#include "alloc/process.h"
#include "alloc/scope.h"
#include "park.h"
#include "pool_state.h"

#define SMALLEST_TABLE 16
#define PLACES_FOR_ONE_LEFT 8

struct sti_tenant {
    stint_account *account; /* kept alive by its tasks */
    stint_priority priority;
    stint_account *full; /* HELD: the account that has its maximum; otherwise NULL */
    sti_task *oldest;
    sti_task *newest;
    size_t count;
    struct sti_tenant *next; /* in the ring, or among those held back */
    struct sti_tenant *previous;
    struct sti_tenant *chain; /* in the table */
};

/* --- The table ---------------------------------------------------------------------------------------------------- */

static size_t place_of(const stint_account *account, stint_priority priority, size_t size)
{
    uint64_t key = ((uint64_t)(uintptr_t)account + (uint64_t)priority) * UINT64_C(0x9e3779b97f4a7c15);
    return (key >> 32) % size;
}

/* The link that leads to the tenant, or to where it belongs. */
static struct sti_tenant **find(struct sti_tenants *tenants, const stint_account *account, stint_priority priority)
{
    struct sti_tenant **link = &tenants->table[place_of(account, priority, tenants->table_size)];
    while (*link != NULL && ((*link)->account != account || (*link)->priority != priority))
        link = &(*link)->chain;
    return link;
}

/* When there is no memory for a larger one the chains get longer. */
static void grow_table(struct sti_tenants *tenants)
{
    size_t size = tenants->table_size * 2;
    struct sti_tenant **table = sti_process_calloc(size, sizeof *table);
    if (table == NULL)
        return;
    for (size_t i = 0; i < tenants->table_size; i++) {
        struct sti_tenant *following;
        for (struct sti_tenant *tenant = tenants->table[i]; tenant != NULL; tenant = following) {
            following = tenant->chain;
            struct sti_tenant **head = &table[place_of(tenant->account, tenant->priority, size)];
            tenant->chain = *head;
            *head = tenant;
        }
    }
    sti_process_free(tenants->table);
    tenants->table = table;
    tenants->table_size = size;
}

/* --- Rings and lists ---------------------------------------------------------------------------------------------- */

static void add(_Atomic unsigned *number, int amount)
{
    atomic_store_explicit(number, atomic_load_explicit(number, memory_order_relaxed) + (unsigned)amount,
                          memory_order_relaxed);
}

/* release: who reads that none waits any more may take it that those who took them out are done. */
static void set(atomic_size_t *number, size_t value)
{
    atomic_store_explicit(number, value, memory_order_release);
}

static size_t get(atomic_size_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

static void enter_list(struct sti_tenant **first, struct sti_tenant *tenant)
{
    if (*first == NULL) {
        tenant->next = tenant->previous = tenant;
        *first = tenant;
        return;
    }
    tenant->next = *first;
    tenant->previous = (*first)->previous;
    tenant->previous->next = tenant;
    tenant->next->previous = tenant;
}

static void leave_list(struct sti_tenant **first, struct sti_tenant *tenant)
{
    if (tenant->next == tenant) {
        *first = NULL;
        return;
    }
    tenant->previous->next = tenant->next;
    tenant->next->previous = tenant->previous;
    if (*first == tenant)
        *first = tenant->next;
}

static void make_ready(struct sti_tenants *tenants, struct sti_tenant *tenant)
{
    enter_list(&tenants->rings[tenant->priority].next, tenant);
    add(&tenants->rings[tenant->priority].ready, 1);
    add(&tenants->ready, 1);
}

static void end_ready(struct sti_tenants *tenants, struct sti_tenant *tenant)
{
    leave_list(&tenants->rings[tenant->priority].next, tenant);
    add(&tenants->rings[tenant->priority].ready, -1);
    add(&tenants->ready, -1);
}

static void hold_back(struct sti_tenants *tenants, struct sti_tenant *tenant, stint_account *full)
{
    end_ready(tenants, tenant);
    tenant->full = full;
    enter_list(&tenants->held_back, tenant);
    set(&tenants->held, get(&tenants->held) + tenant->count);
}

static void end_holding_back(struct sti_tenants *tenants, struct sti_tenant *tenant)
{
    leave_list(&tenants->held_back, tenant);
    set(&tenants->held, get(&tenants->held) - tenant->count);
    sti_account_await_no_more(tenant->full);
    tenant->full = NULL;
}

static void forget(struct sti_tenants *tenants, struct sti_tenant *tenant)
{
    if (tenant->full != NULL)
        end_holding_back(tenants, tenant);
    else
        end_ready(tenants, tenant);
    *find(tenants, tenant->account, tenant->priority) = tenant->chain;
    tenants->count--;
    sti_process_free(tenant);
}

/* --- Putting in --------------------------------------------------------------------------------------------------- */

static struct sti_tenant *find_or_make(struct sti_tenants *tenants, const sti_task *task)
{
    stint_account *account = task->options.account;
    stint_priority priority = task->options.priority;
    struct sti_tenant *tenant = *find(tenants, account, priority);
    if (tenant != NULL)
        return tenant;
    tenant = sti_process_malloc(sizeof *tenant);
    if (tenant == NULL)
        return NULL;
    if (tenants->count == tenants->table_size)
        grow_table(tenants);
    *tenant = (struct sti_tenant){ .account = account, .priority = priority };
    *find(tenants, account, priority) = tenant;
    tenants->count++;
    make_ready(tenants, tenant);
    return tenant;
}

static int put(struct sti_tenants *tenants, sti_task *task)
{
    size_t waiting = get(&tenants->waiting);
    if (tenants->closed)
        return ESHUTDOWN;
    if (waiting == tenants->capacity)
        return EAGAIN;
    struct sti_tenant *tenant = find_or_make(tenants, task);
    if (tenant == NULL)
        return ENOMEM;
    if (tenant->count >= (tenants->capacity - waiting) * PLACES_FOR_ONE_LEFT)
        return EAGAIN;
    task->tenant = tenant;
    task->older = tenant->newest;
    task->newer = NULL;
    *(tenant->newest != NULL ? &tenant->newest->newer : &tenant->oldest) = task;
    tenant->newest = task;
    tenant->count++;
    set(&tenants->waiting, waiting + 1);
    if (tenant->full != NULL)
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

static void take_out(struct sti_tenants *tenants, sti_task *task)
{
    struct sti_tenant *tenant = task->tenant;
    *(task->older != NULL ? &task->older->newer : &tenant->oldest) = task->newer;
    *(task->newer != NULL ? &task->newer->older : &tenant->newest) = task->older;
    if (tenant->full != NULL)
        set(&tenants->held, get(&tenants->held) - 1);
    if (--tenant->count == 0)
        forget(tenants, tenant);
    size_t waiting = get(&tenants->waiting) - 1;
    set(&tenants->waiting, waiting);
    if (waiting == 0 && tenants->closed)
        sti_park_notify_all(tenants->pool);
}

/* A claimed one whose account has been entered. */
static void start(struct sti_tenants *tenants, sti_task *task)
{
    sti_account_count_start(task->options.account);
    task->entered = true;
    take_out(tenants, task);
}

void sti_tenants_remove(struct sti_tenants *tenants, sti_task *task)
{
    sti_plain_mutex_lock(&tenants->lock);
    sti_task_count_unstarted(task, &tenants->pool->tally);
    take_out(tenants, task);
    bool wanted = sti_places_are_wanted(&tenants->pool->places);
    tenants->leaving += wanted;
    sti_plain_mutex_unlock(&tenants->lock);
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

/* What has to be said to an account's other waiters once the lock is given up, as they may be in this room. */
struct afterwards {
    stint_account *account; /* retained; NULL: nothing */
    stint_account *end;
    bool leave; /* the account, which was entered in vain */
};

static void do_afterwards(const struct afterwards *afterwards)
{
    if (afterwards->leave)
        sti_account_leave(afterwards->account);
    else if (afterwards->account != NULL)
        sti_account_tell(afterwards->account, afterwards->end);
    stint_account_release(afterwards->account);
}

/* account.c says why it has to try again once it waits. */
static bool enter_or_hold_back(struct sti_tenants *tenants, struct sti_tenant *tenant, struct afterwards *afterwards)
{
    stint_account *account = tenant->account;
    stint_account *refused = NULL;
    stint_account *full = sti_account_try_enter(account);
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
    if (full != NULL)
        hold_back(tenants, tenant, full);
    return full == NULL;
}

static sti_task *take_turns(struct sti_tenants *tenants, struct sti_tenant_ring *ring, struct afterwards *afterwards)
{
    for (unsigned turns = atomic_load_explicit(&ring->ready, memory_order_relaxed); turns > 0; turns--) {
        struct sti_tenant *tenant = ring->next;
        ring->next = tenant->next;
        bool entered = enter_or_hold_back(tenants, tenant, afterwards);
        sti_task *task = entered ? claim_oldest(tenant) : NULL;
        if (task != NULL) {
            start(tenants, task);
            return task;
        }
        if (entered && tenant->account != NULL) {
            /* All of its tasks have been claimed by others, who are about to take them out. */
            if (afterwards->account == NULL)
                afterwards->account = stint_account_retain(tenant->account);
            afterwards->leave = true;
        }
        if (afterwards->account != NULL)
            return NULL;
    }
    return NULL;
}

sti_task *sti_tenants_take(struct sti_tenants *tenants, stint_priority priority)
{
    struct afterwards afterwards;
    sti_task *task;
    do {
        if (sti_tenants_ready(tenants, priority) == 0)
            return NULL;
        afterwards = (struct afterwards){ .account = NULL };
        sti_plain_mutex_lock(&tenants->lock);
        task = take_turns(tenants, &tenants->rings[priority], &afterwards);
        sti_plain_mutex_unlock(&tenants->lock);
        do_afterwards(&afterwards);
    } while (task == NULL && afterwards.account != NULL && !afterwards.leave);
    return task;
}

static bool take_awaited(struct sti_tenants *tenants, sti_task *task, struct afterwards *afterwards)
{
    stint_account *account = task->options.account;
    stint_account *full = sti_account_try_enter(account);
    if (full != NULL && !sti_scope_is_in_account(full)) {
        *afterwards = (struct afterwards){ .account = stint_account_retain(account), .end = full };
        return false;
    }
    if (full != NULL)
        sti_account_enter_beyond(account);
    if (!sti_task_claim(task)) {
        *afterwards = (struct afterwards){ .account = stint_account_retain(account), .leave = account != NULL };
        return false;
    }
    start(tenants, task);
    return true;
}

bool sti_tenants_take_awaited(struct sti_tenants *tenants, sti_task *task)
{
    struct afterwards afterwards = { .account = NULL };
    sti_plain_mutex_lock(&tenants->lock);
    /* While it is queued and the lock is held it stays here, even if somebody claims it: so its account lives. */
    bool taken = sti_task_is_queued(task) && take_awaited(tenants, task, &afterwards);
    sti_plain_mutex_unlock(&tenants->lock);
    do_afterwards(&afterwards);
    return taken;
}

sti_task *sti_tenants_take_any(struct sti_tenants *tenants)
{
    sti_task *task = NULL;
    sti_plain_mutex_lock(&tenants->lock);
    for (size_t i = 0; i < tenants->table_size && task == NULL; i++) {
        for (struct sti_tenant *tenant = tenants->table[i]; tenant != NULL && task == NULL; tenant = tenant->chain)
            task = claim_oldest(tenant);
    }
    if (task != NULL)
        take_out(tenants, task);
    sti_plain_mutex_unlock(&tenants->lock);
    return task;
}

/* --- Holding back ------------------------------------------------------------------------------------------------- */

bool sti_tenants_release(struct sti_tenants *tenants, const stint_account *account)
{
    bool any = false;
    sti_plain_mutex_lock(&tenants->lock);
    struct sti_tenant *last = tenants->held_back != NULL ? tenants->held_back->previous : NULL;
    struct sti_tenant *tenant = tenants->held_back;
    for (bool more = tenant != NULL; more;) {
        struct sti_tenant *following = tenant->next;
        more = tenant != last;
        if (tenant->full == account) {
            end_holding_back(tenants, tenant);
            make_ready(tenants, tenant);
            any = true;
        }
        tenant = following;
    }
    sti_plain_mutex_unlock(&tenants->lock);
    return any;
}

/* --- Life --------------------------------------------------------------------------------------------------------- */

bool sti_tenants_init(struct sti_tenants *tenants, stint_pool *pool, size_t capacity)
{
    tenants->pool = pool;
    for (size_t i = 0; i < STI_PRIORITIES; i++) {
        tenants->rings[i].next = NULL;
        atomic_init(&tenants->rings[i].ready, 0);
    }
    atomic_init(&tenants->ready, 0);
    atomic_init(&tenants->waiting, 0);
    atomic_init(&tenants->held, 0);
    tenants->held_back = NULL;
    tenants->count = 0;
    tenants->capacity = capacity;
    tenants->leaving = 0;
    tenants->closed = false;
    tenants->table_size = SMALLEST_TABLE;
    tenants->table = sti_process_calloc(SMALLEST_TABLE, sizeof *tenants->table);
    if (tenants->table == NULL)
        return false;
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
    sti_process_free(tenants->table);
}

void sti_tenants_close(struct sti_tenants *tenants)
{
    sti_plain_mutex_lock(&tenants->lock);
    tenants->closed = true;
    sti_plain_mutex_unlock(&tenants->lock);
}
