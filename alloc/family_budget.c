/* SPDX-License-Identifier: MIT
 *
 * What the members of a family charge, against the allocation limit of their task. Thread of the member.
 *
 * Each member draws what it charges in grants: in its scope, own_end is where its grants end. used is
 * what is known to have been charged: a member adds what it has used since the last time with each draw, and the
 * allocation that needs the draw. A draw is refused only when that sum passes the limit. So nobody is stopped because
 * another holds a grant that it does not use: a task that charges its limit in all, and no more, never is. What members
 * have used of their grants meanwhile is added when they settle, at their ends; the sum is exact then, and the task
 * has failed if it passes the limit. It does so by less than one grant for each other member that runs. granted, the
 * sum of what members may use, is for choosing: while it leaves room they get grants, then exactly what they need.
 *
 * Each number is one counter, and nothing is published through it, so all orders are relaxed; what a member has settled
 * is seen by the task's thread because it has waited for that branch. */
#include "account.h"
#include "family.h"
#include "heap.h"
#include "scope.h"
#include "scope_state.h"

#define LARGEST_GRANT ((uint64_t)64 << 10)
#define GRANT_SHIFT 6 /* or a 64th of the limit */

struct sti_member *sti_family_member(const struct sti_scope *innermost)
{
    while (innermost->outer != NULL)
        innermost = innermost->outer;
    return innermost->member;
}

static uint64_t grant_size(const struct sti_family *family)
{
    uint64_t part = family->allocation_limit >> GRANT_SHIFT;
    return part < LARGEST_GRANT ? part : LARGEST_GRANT;
}

/* Let the sum of all grants grow by so much if that leaves it within the limit. */
static bool grant_within(struct sti_family *family, uint64_t amount)
{
    uint64_t granted = atomic_load_explicit(&family->granted, memory_order_relaxed);
    do {
        if (granted > family->allocation_limit || amount > family->allocation_limit - granted)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&family->granted, &granted, granted + amount, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

/* The member's grants reach to what it needs, and beyond that as far as there is room. */
static void grant(struct sti_member *member, struct sti_scope *scope, uint64_t needed)
{
    struct sti_family *family = member->family;
    uint64_t more = scope->begin + needed - scope->own_end;
    uint64_t spare = grant_size(family);
    if (grant_within(family, more + spare)) {
        scope->own_end += more + spare;
    } else {
        atomic_fetch_add_explicit(&family->granted, more, memory_order_relaxed);
        scope->own_end += more;
    }
}

bool sti_family_draw(struct sti_member *member, struct sti_scope *scope, uint64_t after)
{
    struct sti_family *family = member->family;
    uint64_t needed = after - scope->begin;
    uint64_t more = needed - member->used;
    uint64_t used = atomic_load_explicit(&family->used, memory_order_relaxed);
    do {
        if (used > family->allocation_limit || more > family->allocation_limit - used)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&family->used, &used, used + more, memory_order_relaxed,
                                                    memory_order_relaxed));
    member->used = needed;
    grant(member, scope, needed);
    return true;
}

static void settle_allocation(struct sti_member *member, const struct sti_scope *scope)
{
    struct sti_family *family = member->family;
    uint64_t used = scope->thread->used - scope->begin;
    atomic_fetch_add_explicit(&family->used, used - member->used, memory_order_relaxed);
    member->used = 0;
    if (family->allocation_limit != 0)
        atomic_fetch_sub_explicit(&family->granted, scope->own_end - scope->begin - used, memory_order_relaxed);
}

void sti_family_begin(struct sti_member *member, struct sti_scope *scope)
{
    struct sti_family *family = member->family;
    struct sti_thread *thread = scope->thread;
    member->used = thread->used - scope->begin;
    atomic_fetch_add_explicit(&family->used, member->used, memory_order_relaxed);
    if (family->allocation_limit != 0) {
        atomic_fetch_add_explicit(&family->granted, member->used, memory_order_relaxed);
        scope->own_end = thread->used;
        scope->allocation_end = thread->used;
    }
    if (member->account_reserved != 0) {
        atomic_fetch_sub_explicit(&family->account_reserved, member->account_reserved, memory_order_relaxed);
        scope->reserved = member->account_reserved;
        member->account_reserved = 0;
    }
    sti_family_hold(member, sti_heap_held(scope), 0);
    thread->memory_check = 0;
    atomic_store_explicit(&thread->limit, 0, memory_order_relaxed);
}

/* What its heaps hold stays reserved until they are ended. */
static void settle_account(struct sti_member *member, struct sti_scope *scope)
{
    if (scope->account == NULL)
        return;
    member->account_reserved = member->held < scope->reserved ? member->held : scope->reserved;
    sti_account_reserve(scope->account, scope->charged, scope->reserved, member->account_reserved);
    scope->reserved = 0;
    atomic_fetch_add_explicit(&member->family->account_reserved, member->account_reserved, memory_order_relaxed);
}

void sti_family_settle(struct sti_member *member, struct sti_scope *scope)
{
    struct sti_family *family = member->family;
    settle_allocation(member, scope);
    sti_family_hold(member, sti_heap_held(scope), 0);
    settle_account(member, scope);
    if (family->allocation_limit != 0 &&
        atomic_load_explicit(&family->used, memory_order_relaxed) > family->allocation_limit)
        sti_family_trip(family, STINT_REASON_ALLOCATION_LIMIT);
}
