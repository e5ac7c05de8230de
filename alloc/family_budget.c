/* SPDX-License-Identifier: MIT
 *
 * What the members of a family charge and hold, against the limits of their task. Thread of the member; no function is
 * called twice at once for the same member.
 *
 * The allocation limit. Each member draws what it charges in grants: in its scope, own_end is where its grants end. used is
 * what is known to have been charged: a member adds what it has used since the last time with each draw, and the
 * allocation that needs the draw. A draw is refused only when that sum passes the limit. So nobody is stopped because
 * another holds a grant that it does not use: a task that charges its limit in all, and no more, never is. What members
 * have used of their grants meanwhile is added when they settle, at their ends; the sum is exact then, and the task
 * has failed if it passes the limit. It does so by less than one grant for each other member that runs. granted, the
 * sum of what members may use, is for choosing: while it leaves room they get grants, then exactly what they need.
 *
 * The memory limit. held is the sum of what the members held when each was last measured, with the block that it was
 * measured for. A member is measured before it can hold more than it has reserved beyond that: half of what nobody has
 * reserved, at least the floor that a single thread has too. When one needs what others have reserved and do not hold, it
 * gets it, and they are asked to be measured at their next sample point, which a poke brings about. So the limit is
 * passed by at most (members + 1) floors, and the fast path's allocations that were under way. A member that has freed
 * and does not allocate counts with what it held, until it does; blocks of heaps that wait for the outcome count with what
 * they were at the end of their branch.
 *
 * Orders: each number is one counter, nothing is published through it, so they are relaxed; what a member has settled
 * is seen by the task's thread because it has waited for that branch. asked is stored before the pokes and read after the
 * limit's store, seq_cst both, as any flag (thread.h). */
#include "account.h"
#include "family.h"
#include "heap.h"
#include "scope.h"
#include "scope_state.h"

#define LARGEST_GRANT ((uint64_t)64 << 10)
#define GRANT_SHIFT 6 /* or a 64th of the limit */
#define SMALLEST_SLACK ((size_t)64 << 10)
#define SLACK_SHIFT 7 /* and a 128th of the limit */
#define LARGEST_SIZE ((size_t)1 << 47)

struct sti_member *sti_family_member(const struct sti_scope *innermost)
{
    while (innermost->outer != NULL)
        innermost = innermost->outer;
    return innermost->member;
}

/* --- The allocation limit ----------------------------------------------------------------------------------------- */

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

/* --- The memory limit --------------------------------------------------------------------------------------------- */

static size_t memory_floor(const struct sti_family *family)
{
    size_t part = family->memory_limit >> SLACK_SHIFT;
    return part > SMALLEST_SLACK ? part : SMALLEST_SLACK;
}

/* Returns what all hold. */
static size_t publish_held(struct sti_member *member, size_t held)
{
    size_t more = held - member->held;
    member->held = held;
    return atomic_fetch_add_explicit(&member->family->held, more, memory_order_relaxed) + more;
}

static void raise_peak(struct sti_family *family, size_t held)
{
    size_t peak = atomic_load_explicit(&family->peak, memory_order_relaxed);
    while (held > peak && !atomic_compare_exchange_weak_explicit(&family->peak, &peak, held, memory_order_relaxed,
                                                                 memory_order_relaxed))
        ;
}

/* Reserve half of what nobody has reserved beyond what the member holds. Returns what the others have. */
static size_t reserve(struct sti_member *member)
{
    struct sti_family *family = member->family;
    size_t floor = memory_floor(family);
    size_t reserved = atomic_load_explicit(&family->reserved, memory_order_relaxed);
    size_t others;
    size_t wanted;
    do {
        others = reserved - member->reserved;
        size_t taken = others + member->held;
        size_t half = taken < family->memory_limit ? (family->memory_limit - taken) / 2 : 0;
        wanted = member->held + (half > floor ? half : floor);
    } while (!atomic_compare_exchange_weak_explicit(&family->reserved, &reserved, others + wanted, memory_order_relaxed,
                                                    memory_order_relaxed));
    member->reserved = wanted;
    return others;
}

static void ask_to_measure(struct sti_family *family)
{
    atomic_fetch_add_explicit(&family->asked, 1, memory_order_seq_cst);
    atomic_store_explicit(&family->thread->limit, 0, memory_order_seq_cst);
    const struct sti_member *member = atomic_load_explicit(&family->members, memory_order_acquire);
    for (; member != NULL; member = member->next)
        atomic_store_explicit(&member->thread->limit, 0, memory_order_seq_cst);
}

/* Others may have reserved what the member has just got: more than their floors, if asking is to be worth it. */
static void ask_for_what_others_reserve(struct sti_member *member, size_t held, size_t reserved_by_others)
{
    struct sti_family *family = member->family;
    size_t held_by_others = held - member->held;
    size_t running = atomic_load_explicit(&family->running, memory_order_relaxed);
    if (reserved_by_others + member->held > family->memory_limit &&
        reserved_by_others > held_by_others + running * memory_floor(family))
        ask_to_measure(family);
    member->measured = atomic_load_explicit(&family->asked, memory_order_relaxed);
}

bool sti_family_is_asked(const struct sti_member *member)
{
    return member->measured != atomic_load_explicit(&member->family->asked, memory_order_seq_cst);
}

bool sti_family_hold(struct sti_member *member, size_t held, size_t wanted)
{
    struct sti_family *family = member->family;
    bool possible = wanted <= LARGEST_SIZE;
    member->measured = atomic_load_explicit(&family->asked, memory_order_relaxed);
    size_t all = publish_held(member, possible ? held + wanted : held);
    member->wanted = possible ? wanted : 0;
    if (family->memory_limit != 0 && (!possible || all > family->memory_limit)) {
        sti_family_hold_no_more(member);
        return false;
    }
    raise_peak(family, all);
    if (family->memory_limit != 0)
        ask_for_what_others_reserve(member, all, reserve(member));
    return true;
}

void sti_family_hold_no_more(struct sti_member *member)
{
    publish_held(member, member->held - member->wanted);
    member->wanted = 0;
}

size_t sti_family_slack(const struct sti_member *member)
{
    return member->reserved > member->held ? member->reserved - member->held : 0;
}

/* --- Beginning and end -------------------------------------------------------------------------------------------- */

void sti_family_begin(struct sti_member *member, struct sti_scope *scope)
{
    struct sti_family *family = member->family;
    struct sti_thread *thread = scope->thread;
    atomic_fetch_add_explicit(&family->running, 1, memory_order_relaxed);
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
    sti_family_hold(member, sti_heap_held(scope->heaps), 0);
    thread->memory_check = 0;
    atomic_store_explicit(&thread->limit, 0, memory_order_relaxed);
}

/* What its heaps hold stays reserved until they are ended. */
static void settle_memory(struct sti_member *member, struct sti_scope *scope)
{
    struct sti_family *family = member->family;
    raise_peak(family, publish_held(member, sti_heap_held(scope->heaps)));
    atomic_fetch_sub_explicit(&family->reserved, member->reserved - member->held, memory_order_relaxed);
    member->reserved = member->held;
    member->wanted = 0;
    if (scope->account == NULL)
        return;
    member->account_reserved = member->held < scope->reserved ? member->held : scope->reserved;
    sti_account_reserve(scope->account, scope->reserved, member->account_reserved);
    scope->reserved = 0;
    atomic_fetch_add_explicit(&family->account_reserved, member->account_reserved, memory_order_relaxed);
}

void sti_family_settle(struct sti_member *member, struct sti_scope *scope)
{
    struct sti_family *family = member->family;
    settle_allocation(member, scope);
    settle_memory(member, scope);
    atomic_fetch_sub_explicit(&family->running, 1, memory_order_relaxed);
    if (family->allocation_limit != 0 &&
        atomic_load_explicit(&family->used, memory_order_relaxed) > family->allocation_limit)
        sti_family_trip(family, STINT_REASON_ALLOCATION_LIMIT);
}
