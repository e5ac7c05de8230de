/* SPDX-License-Identifier: MIT
 *
 * One tenant: its states, its time, what is charged to it; see tenant.h. Under the room's lock.
 *
 * Times (turns.h). A ring's now is the time of the tenant that was last taken in turn, and never goes back. Who becomes
 * ready begins there, or at its own time if that is later: so nobody saves up what it did not want, and nobody gets rid of
 * what it has had by having nothing to wait for a moment. For that a tenant is kept while its time is ahead; when nothing
 * is ready and nothing runs, nobody is owed anything, and all are forgotten.
 *
 * How long a task takes is not known when it begins. But if it were charged at its end only, several workers would all take
 * tasks of whoever has had least. So it is charged at its beginning what the tenant's tasks have lately taken, rather more
 * than less, and at its end put right (as in 2DFQ: Mace and others 2016). */
#include "tenant.h"

#include "alloc/account.h"
#include "alloc/clock.h"

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
