/* SPDX-License-Identifier: MIT
 *
 * One tenant, the tables of them, and their turns; see tenant.h and tenants.h. Under the room's lock, but for the hints. */
#include "tenant.h"

#include <stddef.h>

#include "alloc/base/clock.h"
#include "alloc/base/process.h"
#include "alloc/charge/account.h"
#include "tenants.h"

/* --- One tenant: its states, its time, what is charged to it. Under the room's lock.
 *
 * Times (tenants.h). A ring's now is the time of the tenant that was last taken in turn, and never goes back. Who becomes
 * ready begins there, or at its own time if that is later: so nobody saves up what it did not want, and nobody gets rid of
 * what it has had by having nothing to wait for a moment. For that a tenant is kept while its time is ahead; when nothing
 * is ready and nothing runs, nobody is owed anything, and all are forgotten.
 *
 * How long a task takes is not known when it begins. But if it were charged at its end only, several workers would all take
 * tasks of whoever has had least. So it is charged at its beginning what the tenant's tasks have lately taken, rather more
 * than less, and at its end put right (as in 2DFQ: Mace and others 2016). */

#define WEIGHT_UNIT 100 /* that of a tenant whose time goes like the clock */
#define LEAST_COST 1000 /* nanoseconds: to take it out of the queue is work too */

static void add(_Atomic unsigned *number, int amount)
{
    atomic_store_explicit(number, atomic_load_explicit(number, memory_order_relaxed) + (unsigned)amount,
                          memory_order_relaxed);
}

/* release: who reads that none waits any more may take it that those who took them out are done. */
static void set_held(struct sti_tenants *tenants, size_t value)
{
    atomic_store_explicit(&tenants->held, value, memory_order_release);
}

static size_t get_held(struct sti_tenants *tenants)
{
    return atomic_load_explicit(&tenants->held, memory_order_relaxed);
}

static struct sti_tenant_ring *ring_of(struct sti_tenants *tenants, const struct sti_tenant *tenant)
{
    return &tenants->rings[tenant->priority];
}

static void hint(struct sti_tenant_ring *ring)
{
    if (ring->turns.first != NULL)
        atomic_store_explicit(&ring->first, ring->turns.first->time, memory_order_relaxed);
}

static void set_plain_time(struct sti_tenants *tenants, uint64_t time)
{
    tenants->plain->turn.time = time;
    atomic_store_explicit(&tenants->plain_time, time, memory_order_relaxed);
}

/* --- States ------------------------------------------------------------------------------------------------------- */

void sti_tenant_begin_ready(struct sti_tenants *tenants, struct sti_tenant *tenant)
{
    struct sti_tenant_ring *ring = ring_of(tenants, tenant);
    if (tenant->turn.link != NULL)
        sti_turns_remove(&ring->idle, &tenant->turn);
    tenant->state = STI_TENANT_READY;
    tenant->turn.time = sti_time_later(tenant->turn.time, ring->now);
    sti_turns_put(&ring->turns, &tenant->turn);
    hint(ring);
    add(&ring->ready, 1);
    add(&tenants->ready, 1);
}

void sti_tenant_end_ready(struct sti_tenants *tenants, struct sti_tenant *tenant)
{
    struct sti_tenant_ring *ring = ring_of(tenants, tenant);
    sti_turns_remove(&ring->turns, &tenant->turn);
    hint(ring);
    add(&ring->ready, -1);
    add(&tenants->ready, -1);
}

void sti_tenant_hold_back(struct sti_tenants *tenants, struct sti_tenant *tenant, stint_account *full)
{
    sti_tenant_end_ready(tenants, tenant);
    tenant->state = STI_TENANT_HELD;
    if (tenant->since == 0)
        tenant->since = sti_clock_now();
    sti_tenant_enter_refused(tenants, tenant, full);
    set_held(tenants, get_held(tenants) + tenant->count);
}

void sti_tenant_end_holding_back(struct sti_tenants *tenants, struct sti_tenant *tenant)
{
    sti_account_await_no_more(tenant->refused->full);
    sti_tenant_leave_refused(tenants, tenant);
    set_held(tenants, get_held(tenants) - tenant->count);
}

void sti_tenant_put_back(struct sti_tenant_ring *ring, struct sti_turn *turns)
{
    while (turns != NULL) {
        struct sti_turn *turn = turns;
        turns = turn->next;
        sti_turns_put(&ring->turns, turn);
    }
    hint(ring);
}

void sti_tenant_lift_plain(struct sti_tenants *tenants)
{
    set_plain_time(tenants, sti_time_later(tenants->plain->turn.time, tenants->rings[STINT_PRIORITY_NORMAL].now));
}

/* Forget those of the ring whose time has come. */
static void sweep(struct sti_tenants *tenants, struct sti_tenant_ring *ring)
{
    bool rests = ring->turns.first == NULL && ring->running == 0;
    struct sti_turn *first;
    while ((first = ring->idle.first) != NULL && (rests || !sti_time_is_before(ring->now, first->time))) {
        sti_turns_remove(&ring->idle, first);
        sti_tenant_free(tenants, sti_tenant_of(first));
    }
    if (rests && ring == &tenants->rings[STINT_PRIORITY_NORMAL])
        set_plain_time(tenants, ring->now);
}

/* Of one that waits for nothing. */
static void keep_or_forget(struct sti_tenants *tenants, struct sti_tenant *tenant)
{
    struct sti_tenant_ring *ring = ring_of(tenants, tenant);
    if (tenant->running == 0 && tenant != tenants->plain)
        sti_turns_put(&ring->idle, &tenant->turn);
    sweep(tenants, ring);
}

void sti_tenant_begin_idle(struct sti_tenants *tenants, struct sti_tenant *tenant)
{
    if (tenant->state == STI_TENANT_HELD)
        sti_tenant_end_holding_back(tenants, tenant);
    else
        sti_tenant_end_ready(tenants, tenant);
    tenant->state = STI_TENANT_IDLE;
    tenant->since = 0;
    keep_or_forget(tenants, tenant);
}

/* --- Time --------------------------------------------------------------------------------------------------------- */

static void add_time(struct sti_tenants *tenants, struct sti_tenant *tenant, int64_t ns)
{
    struct sti_tenant_ring *ring = ring_of(tenants, tenant);
    int64_t weight = (int64_t)sti_account_weight(tenant->account);
    struct sti_turns *turns = tenant->state == STI_TENANT_READY  ? &ring->turns
                              : tenant->state == STI_TENANT_HELD ? &tenant->refused->held[tenant->priority]
                                                                 : NULL;
    if (turns != NULL)
        sti_turns_remove(turns, &tenant->turn);
    tenant->turn.time += (uint64_t)(ns * WEIGHT_UNIT / weight);
    if (turns != NULL)
        sti_turns_put(turns, &tenant->turn);
    if (tenant == tenants->plain)
        set_plain_time(tenants, tenant->turn.time);
    else
        hint(ring);
}

static uint64_t follow_cost(uint64_t cost, uint64_t used)
{
    return used > cost ? used : cost - cost / 8 + used / 8;
}

uint64_t sti_tenant_begin_task(struct sti_tenants *tenants, struct sti_tenant *tenant, bool in_turn)
{
    struct sti_tenant_ring *ring = ring_of(tenants, tenant);
    if (in_turn)
        ring->now = sti_time_later(ring->now, tenant->turn.time);
    tenant->running++;
    ring->running++;
    tenant->since = 0;
    uint64_t charged = tenant->cost;
    add_time(tenants, tenant, (int64_t)charged);
    return charged;
}

void sti_tenant_end_task(struct sti_tenants *tenants, struct sti_tenant *tenant, uint64_t charged, uint64_t used)
{
    used = used > LEAST_COST ? used : LEAST_COST;
    add_time(tenants, tenant, (int64_t)used - (int64_t)charged);
    tenant->cost = follow_cost(tenant->cost, used);
    tenants->typical_cost = tenants->typical_cost - tenants->typical_cost / 16 + used / 16;
    tenant->running--;
    ring_of(tenants, tenant)->running--;
    if (tenant->state == STI_TENANT_IDLE)
        keep_or_forget(tenants, tenant);
}

/* --- The tables of tenants and of accounts that refused some. Under the room's lock. --- */

#define SMALLEST_TABLE 16

static size_t hash(const stint_account *account, stint_priority priority, size_t size)
{
    uint64_t key = ((uint64_t)(uintptr_t)account + (uint64_t)priority) * UINT64_C(0x9e3779b97f4a7c15);
    return (key >> 32) % size;
}

/* The link that leads to it, or to where it belongs. */
static struct sti_tenant **tenant_link(const struct sti_tenants *tenants, const stint_account *account,
                                       stint_priority priority)
{
    struct sti_tenant **link = &tenants->table[hash(account, priority, tenants->table_size)];
    while (*link != NULL && ((*link)->account != account || (*link)->priority != priority))
        link = &(*link)->chain;
    return link;
}

static struct sti_refused **refused_link(const struct sti_tenants *tenants, const stint_account *full)
{
    struct sti_refused **link = &tenants->refused[hash(full, 0, tenants->table_size)];
    while (*link != NULL && (*link)->full != full)
        link = &(*link)->chain;
    return link;
}

static void move_tenants(struct sti_tenant *first, struct sti_tenant **table, size_t size)
{
    struct sti_tenant *following;
    for (struct sti_tenant *tenant = first; tenant != NULL; tenant = following) {
        following = tenant->chain;
        struct sti_tenant **head = &table[hash(tenant->account, tenant->priority, size)];
        tenant->chain = *head;
        *head = tenant;
    }
}

static void move_refused(struct sti_refused *first, struct sti_refused **table, size_t size)
{
    struct sti_refused *following;
    for (struct sti_refused *refused = first; refused != NULL; refused = following) {
        following = refused->chain;
        struct sti_refused **head = &table[hash(refused->full, 0, size)];
        refused->chain = *head;
        *head = refused;
    }
}

/* When there is no memory for larger ones the chains get longer. */
static void grow(struct sti_tenants *tenants)
{
    size_t size = tenants->table_size * 2;
    struct sti_tenant **table = sti_process_calloc(size, sizeof *table);
    struct sti_refused **refused = sti_process_calloc(size, sizeof *refused);
    if (table == NULL || refused == NULL) {
        sti_process_free(table);
        sti_process_free(refused);
        return;
    }
    for (size_t i = 0; i < tenants->table_size; i++) {
        move_tenants(tenants->table[i], table, size);
        move_refused(tenants->refused[i], refused, size);
    }
    sti_process_free(tenants->table);
    sti_process_free(tenants->refused);
    tenants->table = table;
    tenants->refused = refused;
    tenants->table_size = size;
}

struct sti_tenant *sti_tenant_find(struct sti_tenants *tenants, const stint_account *account, stint_priority priority)
{
    return *tenant_link(tenants, account, priority);
}

struct sti_tenant *sti_tenant_find_or_make(struct sti_tenants *tenants, stint_account *account, stint_priority priority)
{
    struct sti_tenant *tenant = sti_tenant_find(tenants, account, priority);
    if (tenant != NULL)
        return tenant;
    tenant = sti_process_malloc(sizeof *tenant);
    struct sti_refused *own = sti_process_malloc(sizeof *own);
    if (tenant == NULL || own == NULL) {
        sti_process_free(tenant);
        sti_process_free(own);
        return NULL;
    }
    if (tenants->count == tenants->table_size)
        grow(tenants);
    *tenant = (struct sti_tenant){
        .turn = { .time = tenants->rings[priority].now },
        .account = stint_account_retain(account),
        .priority = priority,
        .cost = tenants->typical_cost,
        .own = own,
    };
    struct sti_tenant **link = tenant_link(tenants, account, priority);
    tenant->chain = *link;
    *link = tenant;
    tenants->count++;
    return tenant;
}

void sti_tenant_free(struct sti_tenants *tenants, struct sti_tenant *tenant)
{
    *tenant_link(tenants, tenant->account, tenant->priority) = tenant->chain;
    tenants->count--;
    stint_account_release(tenant->account);
    sti_process_free(tenant->own);
    sti_process_free(tenant);
}

struct sti_refused *sti_tenant_refused_by(const struct sti_tenants *tenants, const stint_account *full)
{
    return *refused_link(tenants, full);
}

void sti_tenant_enter_refused(struct sti_tenants *tenants, struct sti_tenant *tenant, stint_account *full)
{
    struct sti_refused **link = refused_link(tenants, full);
    struct sti_refused *own = tenant->own;
    if (*link == NULL) {
        *own = (struct sti_refused){ .full = full };
        *link = own;
    } else {
        own->chain = (*link)->spares;
        (*link)->spares = own;
    }
    tenant->own = NULL;
    tenant->refused = *link;
    tenant->refused->count++;
    sti_turns_put(&tenant->refused->held[tenant->priority], &tenant->turn);
}

void sti_tenant_leave_refused(struct sti_tenants *tenants, struct sti_tenant *tenant)
{
    struct sti_refused *refused = tenant->refused;
    sti_turns_remove(&refused->held[tenant->priority], &tenant->turn);
    tenant->refused = NULL;
    if (--refused->count == 0) {
        *refused_link(tenants, refused->full) = refused->chain;
        tenant->own = refused;
    } else {
        tenant->own = refused->spares;
        refused->spares = tenant->own->chain;
    }
}

bool sti_tenant_tables_init(struct sti_tenants *tenants)
{
    tenants->count = 0;
    tenants->table_size = SMALLEST_TABLE;
    tenants->table = sti_process_calloc(SMALLEST_TABLE, sizeof *tenants->table);
    tenants->refused = sti_process_calloc(SMALLEST_TABLE, sizeof *tenants->refused);
    if (tenants->table != NULL && tenants->refused != NULL)
        return true;
    sti_tenant_tables_end(tenants);
    return false;
}

/* Nothing waits or runs: those that are left are kept for their times. */
void sti_tenant_tables_end(struct sti_tenants *tenants)
{
    for (size_t i = 0; tenants->table != NULL && i < tenants->table_size; i++) {
        while (tenants->table[i] != NULL)
            sti_tenant_free(tenants, tenants->table[i]);
    }
    sti_process_free(tenants->table);
    sti_process_free(tenants->refused);
}

/* --- The heap of turns. --- */

static bool comes_before(const struct sti_turn *turn, const struct sti_turn *other)
{
    return sti_time_is_before(turn->time, other->time) || (turn->time == other->time && turn->number < other->number);
}

/* Two heaps; either may be NULL. The result's next and link are the caller's to set. */
static struct sti_turn *meld(struct sti_turn *one, struct sti_turn *other)
{
    if (one == NULL || other == NULL)
        return one != NULL ? one : other;
    struct sti_turn *first = comes_before(one, other) ? one : other;
    struct sti_turn *below = first == one ? other : one;
    below->next = first->child;
    if (below->next != NULL)
        below->next->link = &below->next;
    below->link = &first->child;
    first->child = below;
    return first;
}

/* Those with one parent into one heap: in pairs from the left, then all of these from the right. */
static struct sti_turn *meld_all(struct sti_turn *turn)
{
    struct sti_turn *pairs = NULL;
    while (turn != NULL) {
        struct sti_turn *one = turn;
        struct sti_turn *other = one->next;
        turn = other != NULL ? other->next : NULL;
        struct sti_turn *pair = meld(one, other);
        pair->next = pairs;
        pairs = pair;
    }
    struct sti_turn *all = NULL;
    while (pairs != NULL) {
        struct sti_turn *pair = pairs;
        pairs = pair->next;
        all = meld(all, pair);
    }
    return all;
}

static void set_first(struct sti_turns *turns, struct sti_turn *turn)
{
    turns->first = turn;
    if (turn == NULL)
        return;
    turn->next = NULL;
    turn->link = &turns->first;
}

void sti_turns_put(struct sti_turns *turns, struct sti_turn *turn)
{
    turn->number = turns->numbers++;
    turn->child = NULL;
    set_first(turns, meld(turns->first, turn));
}

void sti_turns_remove(struct sti_turns *turns, struct sti_turn *turn)
{
    struct sti_turn *below = meld_all(turn->child);
    struct sti_turn **link = turn->link;
    turn->link = NULL;
    if (turns->first == turn) {
        set_first(turns, below);
        return;
    }
    *link = turn->next;
    if (turn->next != NULL)
        turn->next->link = link;
    set_first(turns, meld(turns->first, below));
}
