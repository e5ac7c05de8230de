/* SPDX-License-Identifier: MIT
 *
 * The tables of tenants and of accounts that refused some; see tenant.h. Under the room's lock. */
#include <stddef.h>

#include "alloc/process.h"
#include "tenant.h"

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
