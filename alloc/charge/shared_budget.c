/* SPDX-License-Identifier: MIT
 *
 * One budget for the members of a family: the allocation limit and the memory limit of a task that runs on several threads;
 * see shared_budget.h. Thread of the member. */
#include "shared_budget.h"

#include <sched.h>
#include <time.h>

#include "account.h"
#include "alloc/base/scope_state.h"
#include "alloc/interrupt/left_frames.h"
#include "alloc/rollback/heap.h"

/* --- What the members of a family charge, against the allocation limit of their task. Thread of the member.
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

/* --- What the members of a family hold together, against the memory limit of their task. Thread of the member.
 *
 * A heap can be measured by its own thread only. So each member publishes two numbers. held: what it held when it was
 * measured last, with the block that it was measured for. estimate: that, and what it has been charged since, which its
 * frees may have made too high; it grows at every sample point, so it is never too low by more than what is charged
 * between two of them. While the sum of the estimates is within the limit, so is what is held. When a member finds it
 * beyond, it is measured, if it has been charged a floor since the last time (the one that a single thread has too, for
 * the same reason); and when the sum is still too high, the others are asked: those that allocate find at their next
 * sample point, which a poke brings about, that they are to be measured, those that wait for a subtask or keep heaps and
 * have nothing to do are woken (branch.h). The one that asks gives them a millisecond or so; then the limit is passed.
 *
 * So the limit is passed by at most a floor, and what is charged between two sample points, for each member. And a task is
 * stopped below it only if one of its threads has freed much and now computes without allocating, for longer than that.
 *
 * Each number is one counter, and nothing is published through it: relaxed. asked is stored before the pokes, and read in
 * the sample points after: seq_cst both, as any flag (thread.h). */

#define SMALLEST_FLOOR ((size_t)64 << 10)
#define FLOOR_SHIFT 7 /* and a 128th of the limit */
#define LARGEST_SIZE ((size_t)1 << 47)
#define SHORT_WAITS 64
#define LONG_WAIT_NS 50000

unsigned sti_family_patience = SHORT_WAITS + 20;

static size_t publish(atomic_size_t *sum, size_t *part, size_t now)
{
    size_t more = now - *part;
    *part = now;
    return atomic_fetch_add_explicit(sum, more, memory_order_relaxed) + more;
}

static void raise_peak(struct sti_family *family, size_t held)
{
    size_t peak = atomic_load_explicit(&family->peak, memory_order_relaxed);
    while (held > peak && !atomic_compare_exchange_weak_explicit(&family->peak, &peak, held, memory_order_relaxed,
                                                                 memory_order_relaxed))
        ;
}

static void publish_both(struct sti_member *member, size_t held)
{
    publish(&member->family->held, &member->held, held);
    publish(&member->family->estimate, &member->estimate, held);
}

bool sti_family_hold(struct sti_member *member, size_t held, size_t wanted)
{
    struct sti_family *family = member->family;
    bool possible = wanted <= LARGEST_SIZE;
    member->wanted = possible ? wanted : 0;
    member->answered = atomic_load_explicit(&family->asked, memory_order_relaxed);
    member->measured_at = member->thread->used + member->wanted;
    held += member->wanted;
    size_t all_held = publish(&family->held, &member->held, held);
    size_t all = publish(&family->estimate, &member->estimate, held);
    if (family->memory_limit != 0 && (!possible || all > family->memory_limit)) {
        sti_family_hold_no_more(member);
        return false;
    }
    raise_peak(family, all_held);
    member->slack = family->memory_limit != 0 ? (family->memory_limit - all) / 2 : 0;
    return true;
}

void sti_family_hold_no_more(struct sti_member *member)
{
    publish_both(member, member->held - member->wanted);
    member->slack = 0;
    member->wanted = 0;
}

static bool is_asked(const struct sti_member *member)
{
    return member->answered != atomic_load_explicit(&member->family->asked, memory_order_seq_cst);
}

bool sti_family_must_measure(struct sti_member *member, uint64_t after)
{
    struct sti_family *family = member->family;
    member->wanted = 0; /* it has been made, or given up */
    if (family->memory_limit == 0)
        return false;
    size_t part = family->memory_limit >> FLOOR_SHIFT;
    size_t floor = part > SMALLEST_FLOOR ? part : SMALLEST_FLOOR;
    uint64_t charged = after > member->measured_at ? after - member->measured_at : 0;
    size_t grown = charged + charged / 4;
    size_t all = publish(&family->estimate, &member->estimate, member->held + grown);
    return is_asked(member) || (all > family->memory_limit && grown >= floor);
}

static void ask(struct sti_family *family)
{
    atomic_fetch_add_explicit(&family->asked, 1, memory_order_seq_cst);
    atomic_store_explicit(&family->thread->limit, 0, memory_order_seq_cst);
    sti_forks_wake(family->thread);
    const struct sti_member *member = atomic_load_explicit(&family->members, memory_order_acquire);
    for (; member != NULL; member = member->next) {
        atomic_store_explicit(&member->thread->limit, 0, memory_order_seq_cst);
        sti_forks_wake(member->thread);
    }
}

bool sti_family_await_others(const struct sti_member *member, unsigned round)
{
    struct sti_family *family = member->family;
    if (round >= sti_family_patience || sti_family_tripped(family) != STINT_REASON_NONE)
        return false;
    if (round == 0)
        ask(family);
    const struct timespec moment = { .tv_nsec = LONG_WAIT_NS };
    if (round < SHORT_WAITS)
        sched_yield();
    else
        nanosleep(&moment, NULL);
    return true;
}

void sti_family_answer_idle(struct sti_member *member)
{
    if (!is_asked(member))
        return;
    member->answered = atomic_load_explicit(&member->family->asked, memory_order_relaxed);
    publish_both(member, sti_heap_list_held(member->heaps));
}

/* The next sample point measures again, and places the one after. */
void sti_family_answer_waiting(struct sti_member *member, struct sti_scope *innermost)
{
    if (!is_asked(member))
        return;
    size_t held = 0;
    for (struct sti_scope *scope = innermost; scope != NULL; scope = scope->outer) {
        sti_heap_measure_exactly(innermost->thread, scope);
        held += sti_heap_held(scope);
    }
    sti_family_hold(member, held, 0);
    innermost->thread->memory_check = 0;
    atomic_store_explicit(&innermost->thread->limit, 0, memory_order_relaxed);
}
