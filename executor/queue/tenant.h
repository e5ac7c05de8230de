/* SPDX-License-Identifier: MIT
 *
 * One tenant, and the tables of them: what tenants.c is made of. All of it under the room's lock, but for the hints. */
#ifndef STI_EXECUTOR_QUEUE_TENANT_H
#define STI_EXECUTOR_QUEUE_TENANT_H

#include <stint/account.h>

#include "tenants.h"

enum sti_tenant_state {
    STI_TENANT_IDLE, /* nothing waits: a task of it runs, or it is kept for its time, which is ahead (ring->idle) */
    STI_TENANT_READY,
    STI_TENANT_HELD,
};

/* Who is held back for one account. Each tenant brings a record along: the first one's becomes the account's, the others'
 * lie there as spares, and who leaves takes one with it. So there is always one, and nothing can fail (turnstiles, as in
 * Solaris). */
struct sti_refused {
    stint_account *full;
    struct sti_turns held[STI_PRIORITIES];
    unsigned count;
    struct sti_refused *spares;
    struct sti_refused *chain; /* in the table, or of spares */
};

struct sti_tenant {
    struct sti_turn turn;   /* first, so that a turn is its tenant */
    stint_account *account; /* retained; NULL: of none */
    stint_priority priority;
    enum sti_tenant_state state;
    sti_task *oldest;
    sti_task *newest;
    size_t count;     /* of tasks that wait */
    unsigned running; /* tasks that have begun and are not settled */
    uint64_t cost;    /* what its next task will take, by what the last ones took */
    struct sti_refused *refused;
    struct sti_refused *own;  /* its spare record; NULL while it is held back */
    uint64_t since;           /* when it was first refused a slot for its next task; 0: it was not */
    stint_account *told;      /* it is ready because this account was to have a slot */
    bool granted;             /* its account has been entered already, for its next task */
    struct sti_tenant *chain; /* in the table */
};

static inline struct sti_tenant *sti_tenant_of(struct sti_turn *turn)
{
    return (struct sti_tenant *)turn;
}

/* The tables (tenant.c). The tenant of an account in a priority, if it is known; made when it is not. NULL: no
 * memory. */
struct sti_tenant *sti_tenant_find(struct sti_tenants *tenants, const stint_account *account, stint_priority priority);
struct sti_tenant *sti_tenant_find_or_make(struct sti_tenants *tenants, stint_account *account,
                                           stint_priority priority);
void sti_tenant_free(struct sti_tenants *tenants, struct sti_tenant *tenant);
bool sti_tenant_tables_init(struct sti_tenants *tenants);
void sti_tenant_tables_end(struct sti_tenants *tenants);

/* Those who are held back for an account; NULL: nobody is. And in or out. */
struct sti_refused *sti_tenant_refused_by(const struct sti_tenants *tenants, const stint_account *full);
void sti_tenant_enter_refused(struct sti_tenants *tenants, struct sti_tenant *tenant, stint_account *full);
void sti_tenant_leave_refused(struct sti_tenants *tenants, struct sti_tenant *tenant);

/* From state to state (tenant.c). */
void sti_tenant_begin_ready(struct sti_tenants *tenants, struct sti_tenant *tenant);
void sti_tenant_end_ready(struct sti_tenants *tenants, struct sti_tenant *tenant);
void sti_tenant_hold_back(struct sti_tenants *tenants, struct sti_tenant *tenant, stint_account *full);
void sti_tenant_end_holding_back(struct sti_tenants *tenants, struct sti_tenant *tenant);

/* Ready ones that were out of the turns for a moment, linked by next. */
void sti_tenant_put_back(struct sti_tenant_ring *ring, struct sti_turn *turns);

/* The plain tasks had their turn, but there were none. */
void sti_tenant_lift_plain(struct sti_tenants *tenants);

/* Ready or held back, with its last task taken out. */
void sti_tenant_begin_idle(struct sti_tenants *tenants, struct sti_tenant *tenant);

/* A task of it begins, in turn or out of it: what it is expected to take is charged, and returned. And it has ended: it was
 * charged so much, and has used so much. */
uint64_t sti_tenant_begin_task(struct sti_tenants *tenants, struct sti_tenant *tenant, bool in_turn);
void sti_tenant_end_task(struct sti_tenants *tenants, struct sti_tenant *tenant, uint64_t charged, uint64_t used);

#endif
