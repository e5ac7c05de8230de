/* SPDX-License-Identifier: MIT
 *
 * One budget for the shares of a group: the allocation limit and the memory limit of a task that runs on several
 * threads; see shared_budget.h. Thread of the share. */
#include "shared_budget.h"

#include <sched.h>

#include "account.h"
#include "alloc/heap/held.h"
#include "alloc/heap/mapping.h"
#include "alloc/interrupt/forks.h"
#include "alloc/platform/scope_state.h"

/* --- What the shares of a group charge, against the allocation limit of their task. Thread of the share.
 *
 * Each share draws what it charges in grants: in its scope, own_end is where its grants end. used is what is known to
 * have been charged: a share adds what it has used since the last time with each draw, and the allocation that needs
 * the draw. A draw is refused only when that sum passes the limit. So nobody is stopped because another holds a grant
 * that it does not use: a task that charges its limit in all, and no more, never is. What shares have used of their
 * grants meanwhile is added when they settle, at their ends; the sum is exact then, and the task has failed if it
 * passes the limit. The overshoot is less than one grant for each other share that runs. granted, the sum of what
 * shares may use, is for choosing: while it leaves room they get grants, then exactly what they need.
 *
 * Each number is one counter, and nothing is published through it, so all orders are relaxed; what a share has settled
 * is seen by the task's thread because it has waited for that stolen subtask. */

#define LARGEST_GRANT ((uint64_t)64 << 10)
#define GRANT_SHIFT 6 /* or a 64th of the limit */

struct sti_share *sti_group_member(const struct sti_scope *innermost)
{
    return sti_scope_outermost(innermost)->share;
}

static uint64_t grant_size(const struct sti_group *group)
{
    uint64_t part = sti_group_allocation_limit(group) >> GRANT_SHIFT;
    return part < LARGEST_GRANT ? part : LARGEST_GRANT;
}

/* Let the sum of all grants grow by so much if that leaves it within the limit. */
static bool grant_within(struct sti_group *group, uint64_t amount)
{
    uint64_t limit = sti_group_allocation_limit(group);
    uint64_t granted = atomic_load_explicit(&group->granted, memory_order_relaxed);
    do {
        if (granted > limit || amount > limit - granted)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&group->granted, &granted, granted + amount, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

/* The share's grants reach to what it needs, and beyond that as far as there is room. */
static void share_grant(struct sti_share *share, struct sti_scope *scope, uint64_t needed)
{
    struct sti_group *group = share->group;
    uint64_t more = scope->begin + needed - scope->own_end;
    uint64_t spare = grant_size(group);
    if (grant_within(group, more + spare)) {
        scope->own_end += more + spare;
    } else {
        atomic_fetch_add_explicit(&group->granted, more, memory_order_relaxed);
        scope->own_end += more;
    }
}

bool sti_group_draw(struct sti_share *share, struct sti_scope *scope, uint64_t after)
{
    struct sti_group *group = share->group;
    uint64_t needed = after - scope->begin;
    uint64_t more = needed - share->used;
    uint64_t limit = sti_group_allocation_limit(group);
    uint64_t used = atomic_load_explicit(&group->used, memory_order_relaxed);
    do {
        if (used > limit || more > limit - used)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&group->used, &used, used + more, memory_order_relaxed,
                                                    memory_order_relaxed));
    share->used = needed;
    share_grant(share, scope, needed);
    return true;
}

/* The share begins to draw: what its scope has been charged until now counts as granted. */
static void begin_to_draw(struct sti_share *share, struct sti_scope *scope)
{
    struct sti_group *group = share->group;
    uint64_t used = scope->thread->used - scope->begin;
    atomic_fetch_add_explicit(&group->used, used - share->used, memory_order_relaxed);
    share->used = used;
    scope->own_end = UINT64_MAX;
    if (sti_group_allocation_limit(group) != 0) {
        atomic_fetch_add_explicit(&group->granted, used, memory_order_relaxed);
        scope->own_end = scope->thread->used;
    }
}

/* A share that draws goes on with it: it does so up to a limit that is none. */
void sti_group_take_limits(struct sti_share *share, struct sti_scope *scope, uint64_t allocation, size_t memory)
{
    atomic_store_explicit(&share->group->allocation_limit, allocation != 0 ? allocation : UINT64_MAX,
                          memory_order_relaxed);
    atomic_store_explicit(&share->group->memory_limit, memory, memory_order_relaxed);
    if (scope->own_end == UINT64_MAX)
        begin_to_draw(share, scope);
}

static void settle_allocation(struct sti_share *share, const struct sti_scope *scope)
{
    struct sti_group *group = share->group;
    uint64_t used = scope->thread->used - scope->begin;
    atomic_fetch_add_explicit(&group->used, used - share->used, memory_order_relaxed);
    share->used = 0;
    if (scope->own_end != UINT64_MAX)
        atomic_fetch_sub_explicit(&group->granted, scope->own_end - scope->begin - used, memory_order_relaxed);
}

void sti_group_begin(struct sti_share *share, struct sti_scope *scope)
{
    struct sti_group *group = share->group;
    struct sti_thread *thread = scope->thread;
    begin_to_draw(share, scope);
    scope->allocation_end = scope->own_end;
    if (share->account_reserved != 0) {
        atomic_fetch_sub_explicit(&group->account_reserved, share->account_reserved, memory_order_relaxed);
        scope->reserved = share->account_reserved;
        share->account_reserved = 0;
    }
    sti_group_note_asked(share);
    sti_group_hold(share, sti_heap_held(scope), 0);
    thread->memory_check = 0;
    atomic_store_explicit(&thread->limit, 0, memory_order_relaxed);
}

/* Settle the account: what the share's heaps hold stays reserved until the heaps are ended. */
static void settle_account(struct sti_share *share, struct sti_scope *scope)
{
    if (scope->account == NULL)
        return;
    share->account_reserved = share->held < scope->reserved ? share->held : scope->reserved;
    sti_account_reserve(scope->account, scope->charged, scope->reserved, share->account_reserved);
    scope->reserved = 0;
    atomic_fetch_add_explicit(&share->group->account_reserved, share->account_reserved, memory_order_relaxed);
}

void sti_group_settle(struct sti_share *share, struct sti_scope *scope)
{
    struct sti_group *group = share->group;
    settle_allocation(share, scope);
    sti_group_note_asked(share);
    sti_group_hold(share, sti_heap_held(scope), 0);
    settle_account(share, scope);
    uint64_t limit = sti_group_allocation_limit(group);
    if (limit != 0 && atomic_load_explicit(&group->used, memory_order_relaxed) > limit)
        sti_group_trip(group, STINT_REASON_ALLOCATION_LIMIT);
}

/* --- What the shares of a group hold together, against the memory limit of their task. Thread of the share.
 *
 * A heap can be measured by its own thread only. So each share publishes two numbers. held: what it held when it was
 * measured last, with the block that it was measured for as soon as that is granted. bound: that, with the block from
 * the measurement on, and what it has been charged since, which its frees may have made too high; it grows at every
 * sample point, so it is never too low by more than what is charged between two of them, and it is measured anew
 * whenever it has grown by a floor (the one that a single thread has too). While the sum of the bounds is within the
 * limit, so is what is held. The peak is that of the sum of what is held, so no block counts for it that is refused.
 *
 * A share that finds the sum beyond is measured. If the sum is still too high it asks the others: those that allocate
 * find at their next sample point, which is requested of it, that they are to be measured; those that wait for a
 * subtask, or keep heaps and have nothing to do, are woken (subtask.h). The one that has asked lets others run for some
 * turns, and looks at the sum after each. Then the limit is passed. Nobody waits for an answer: a thread that computes
 * gives none.
 *
 * So the limit is passed by at most what is charged between two sample points, and before a share that finds the sum
 * beyond is measured: 160 KiB for each share. And a task may be stopped below it by what each of its threads has freed
 * since it was measured: a floor, or all that it had where it allocates nothing any more.
 *
 * Each number is one counter, and nothing is published through it: relaxed. asked is stored before the requests for
 * samples, and read once more in a sample point when the next one has its place: seq_cst both, as any flag (thread.h).
 * A share reads it before it is measured (acquire: it sees what was freed before that was asked). */

#define SMALLEST_GROWTH ((uint64_t)16 << 10)
#define LARGEST_SIZE ((size_t)1 << 47)
#define TURNS 64

static size_t memory_limit(const struct sti_group *group)
{
    return atomic_load_explicit(&group->memory_limit, memory_order_relaxed);
}

static size_t share_publish(atomic_size_t *sum, size_t *part, size_t now)
{
    size_t more = now - *part;
    *part = now;
    return atomic_fetch_add_explicit(sum, more, memory_order_relaxed) + more;
}

static void raise_peak(struct sti_group *group, size_t held)
{
    size_t peak = atomic_load_explicit(&group->peak, memory_order_relaxed);
    while (held > peak && !atomic_compare_exchange_weak_explicit(&group->peak, &peak, held, memory_order_relaxed,
                                                                 memory_order_relaxed))
        ;
}

static void publish_both(struct sti_share *share, size_t held)
{
    share_publish(&share->group->held, &share->held, held);
    share_publish(&share->group->bound, &share->bound, held);
}

bool sti_group_hold(struct sti_share *share, size_t held, size_t wanted)
{
    struct sti_group *group = share->group;
    bool possible = wanted <= LARGEST_SIZE;
    share->wanted = possible ? wanted : 0;
    share->measured_at = share->thread->used + share->wanted;
    size_t all_held = share_publish(&group->held, &share->held, held);
    size_t all = share_publish(&group->bound, &share->bound, held + share->wanted);
    size_t limit = memory_limit(group);
    if (limit != 0 && (!possible || all > limit)) {
        sti_group_hold_no_more(share);
        return false;
    }
    raise_peak(group, all_held);
    return true;
}

void sti_group_granted(struct sti_share *share, size_t block)
{
    share->wanted = 0;
    publish_both(share, share->held + block);
    raise_peak(share->group, atomic_load_explicit(&share->group->held, memory_order_relaxed));
}

void sti_group_hold_no_more(struct sti_share *share)
{
    share_publish(&share->group->bound, &share->bound, share->bound - share->wanted);
    share->wanted = 0;
}

bool sti_group_is_asked(const struct sti_share *share)
{
    return share->asked != atomic_load_explicit(&share->group->asked, memory_order_seq_cst);
}

bool sti_group_must_measure(struct sti_share *share, uint64_t after)
{
    struct sti_group *group = share->group;
    share->wanted = 0; /* it has been made, or given up */
    size_t limit = memory_limit(group);
    if (limit == 0)
        return false;
    uint64_t charged = after > share->measured_at ? after - share->measured_at : 0;
    size_t all = share_publish(&group->bound, &share->bound, share->held + charged + charged / 4);
    return sti_group_is_asked(share) || (all > limit && charged >= SMALLEST_GROWTH);
}

void sti_group_ask_others(struct sti_group *group)
{
    atomic_fetch_add_explicit(&group->asked, 1, memory_order_seq_cst);
    atomic_store_explicit(&group->thread->limit, 0, memory_order_seq_cst);
    sti_forks_wake(group->thread);
    const struct sti_share *share = atomic_load_explicit(&group->shares, memory_order_seq_cst);
    for (; share != NULL; share = share->next) {
        atomic_store_explicit(&share->thread->limit, 0, memory_order_seq_cst);
        sti_forks_wake(share->thread);
    }
}

bool sti_group_let_others_run(struct sti_group *group, unsigned turn)
{
    if (turn >= TURNS || sti_group_tripped(group) != STINT_REASON_NONE)
        return false;
    sched_yield();
    return true;
}

void sti_group_answer_idle(struct sti_share *share)
{
    if (!sti_group_is_asked(share))
        return;
    sti_group_note_asked(share);
    publish_both(share, sti_heap_list_held(share->heaps) + sti_mapped_held(share->mapped));
}

/* The next sample point measures again, and places the one after. */
void sti_group_answer_waiting(struct sti_share *share, struct sti_scope *innermost)
{
    if (!sti_group_is_asked(share))
        return;
    size_t held = 0;
    sti_group_note_asked(share);
    for (struct sti_scope *scope = innermost; scope != NULL; scope = scope->outer) {
        sti_heap_measure_exactly(innermost->thread, scope);
        held += sti_heap_held(scope);
    }
    sti_group_hold(share, held, 0);
    innermost->thread->memory_check = 0;
    atomic_store_explicit(&innermost->thread->limit, 0, memory_order_relaxed);
}
