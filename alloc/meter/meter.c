/* SPDX-License-Identifier: MIT
 *
 * The meter: the sample point; see meter.h. Calling thread only. */
#include "meter.h"

#include <errno.h>
#include <stint/interrupt.h>

#include "account.h"
#include "alloc/heap/checked.h"
#include "alloc/heap/heap.h"
#include "alloc/heap/held.h"
#include "alloc/interrupt/cxx.h"
#include "alloc/interrupt/hold.h"
#include "alloc/interrupt/interrupt.h"
#include "alloc/interrupt/warning.h"
#include "alloc/interrupt/watch.h"
#include "alloc/platform/caller.h"
#include "alloc/platform/permanent.h"
#include "alloc/platform/reporting.h"
#include "alloc/platform/sampling.h"
#include "alloc/platform/scope_state.h"
#include "global.h"
#include "shared_budget.h"

/* --- The sample point: where budgets are compared exactly, and where the next one will be. Calling thread only.
 *
 * The allocation limit. used counts all bytes charged on the thread; a scope's end is the value of used at which its
 * limit is reached. A scope inside others ends where the first of them does, so the fast path compares once at any
 * depth, and whose limit it was is asked only here.
 *
 * The memory limit. A scope cannot hold more than (what it held when last measured) + (what has been charged since,
 * rounded up to size classes or slices: at most a quarter more). So nothing is measured until that sum can reach the
 * limit; then the heaps' areas are walked, and either there is new slack or the limit is passed. The slack has a floor,
 * so that a task which lives near its limit does not walk at every allocation; the floor is what a limit can be passed
 * by. The peak is kept by the same measurements: one is due whenever the scope could hold an eighth and a slack more
 * than was ever seen. That slack grows with what the scope was charged, so that a task which goes on and on at one
 * level is measured ever more rarely: the walks were what a malloc in a task cost most.
 *
 * Accounts. A scope draws what it charges in grants, so the account's counters are touched once in 256 KiB, and it
 * reserves what it may hold whenever it is measured.
 *
 * The process. While there is a limit on it, each task looks at what it holds from time to time (global.c). A profile's
 * next sample is one more place where the fast path is left (sampling.h).
 *
 * The deadline. While a scope has one, a sample point is due at least every 16 KiB, or, while these come faster than
 * the ticks of the clock that is looked at, less often. */

#define DEADLINE_INTERVAL ((uint64_t)16 << 10)
#define SMALLEST_SLACK ((uint64_t)64 << 10)
#define SLACK_SHIFT 7 /* and a 128th of the limit */
#define PEAK_SHIFT 3
#define PEAK_SLACK_SHIFT 4 /* a 16th of what was charged */
#define LARGEST_PEAK_SLACK ((uint64_t)1 << 20)
#define LONGEST_INTERVAL ((uint64_t)112 << 10) /* with a growth of shared_budget.c's its blocks hold 160 KiB */
#define LARGE ((uint64_t)128 << 10)
#define LARGEST_CHARGE ((uint64_t)1 << 47) /* no address space has room for more: refused, and not charged */

static uint64_t amount_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t amount_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* How many bytes can be charged before they can have become blocks that hold so many bytes. */
static uint64_t bytes_chargeable(uint64_t held)
{
    return held / 5 * 4;
}

/* What the scope may hold more before its peak is looked for again, if what it asks for is granted. */
static uint64_t until_peak_check(const struct sti_scope *scope, uint64_t charged, size_t held)
{
    uint64_t slack = amount_min(amount_max(SMALLEST_SLACK, charged >> PEAK_SLACK_SHIFT), LARGEST_PEAK_SLACK);
    return scope->granted_peak - held + (scope->granted_peak >> PEAK_SHIFT) + slack;
}

static uint64_t until_limit_check(const struct sti_scope *scope, size_t held)
{
    uint64_t floor = amount_max(SMALLEST_SLACK, scope->memory_limit >> SLACK_SHIFT);
    uint64_t limit = scope->warn != 0 ? amount_min(scope->memory_limit, scope->marks.held) : scope->memory_limit;
    uint64_t slack = held < limit ? limit - held : 0;
    return bytes_chargeable(scope->share != NULL ? floor : amount_max(slack, floor));
}

void sti_meter_allocate_from(struct sti_thread *thread, const struct sti_heap *heap)
{
    thread->allocating = heap != NULL ? heap->theap : NULL;
    thread->small = heap != NULL && !sti_checked_is_on ? STI_BACKEND_SMALL : 0; /* that way records nothing */
}

void sti_meter_begin(struct sti_thread *thread, const stint_budget *budget)
{
    struct sti_scope *scope = thread->scope;
    scope->begin = thread->used;
    scope->granted_end = thread->used;
    scope->reserved = 0;
    scope->own_end = sti_limits_end(thread->used, budget->allocation);
    scope->memory_limit = budget->memory;
    scope->below_memory_check = thread->memory_check;
    uint64_t check = thread->used + bytes_chargeable(SMALLEST_SLACK); /* until_peak_check, of nothing */
    if (scope->memory_limit != 0)
        check = amount_min(check, sti_saturating_add(thread->used, until_limit_check(scope, 0)));
    if (scope->outer != NULL) {
        scope->allocation_end = amount_min(scope->own_end, scope->outer->allocation_end);
        thread->memory_check = amount_min(check, scope->below_memory_check);
    } else {
        scope->allocation_end = scope->own_end;
        thread->memory_check = check;
    }
    sti_meter_allocate_from(thread, NULL);
    atomic_store_explicit(&thread->limit, 0, memory_order_relaxed);
}

/* The scopes around it hold more than what was charged lets them expect. */
static void bring_memory_checks_nearer(struct sti_scope *scope, uint64_t by)
{
    for (; scope->outer != NULL; scope = scope->outer)
        scope->below_memory_check -= amount_min(by, scope->below_memory_check);
}

void sti_meter_end(struct sti_thread *thread, size_t left)
{
    struct sti_scope *scope = thread->scope;
    struct sti_scope *below = scope->below;
    uint64_t charged = thread->used - scope->begin;
    if (scope->outer != NULL && left > charged)
        bring_memory_checks_nearer(scope, left - charged);
    if (scope->account != NULL) {
        sti_account_settle(scope->account, scope->charged, scope->granted_end - scope->begin, charged);
        sti_account_reserve(scope->account, scope->charged, scope->reserved, 0);
    }
    if (scope->outer == NULL) {
        if (thread->sampling.next != UINT64_MAX)
            thread->sampling.next -= charged;
        thread->used = scope->begin;
    }
    thread->memory_check = scope->below_memory_check;
    sti_meter_allocate_from(thread, below != NULL ? sti_heap_own(below) : NULL);
    atomic_store_explicit(&thread->limit, 0, memory_order_relaxed);
}

bool sti_meter_grow(struct sti_thread *thread)
{
    struct sti_scope *scope = thread->scope;
    struct sti_heap *heap = sti_heap_take(thread);
    if (heap == NULL)
        return false;
    heap->wiped = scope->wiped;
    scope->heap = heap;
    heap->next = scope->heaps;
    scope->heaps = heap;
    sti_meter_allocate_from(thread, heap);
    return true;
}

struct passed {
    struct sti_scope *scope; /* the outermost one; NULL: none */
    stint_reason reason;
};

/* Reserve what the scope may come to hold until the next check; just what it needs when the account has no more. Where
 * no account limits it, so much that the account is seldom a reason to check. */
static bool memory_reserve(struct sti_scope *scope, uint64_t needed, uint64_t until_peak)
{
    uint64_t slack = (needed >> PEAK_SHIFT) + SMALLEST_SLACK;
    if (!sti_account_limits_memory(scope->account, scope->charged))
        slack = amount_max(slack, amount_min(until_peak, 2 * LARGEST_PEAK_SLACK));
    uint64_t with_slack = needed + slack;
    uint64_t reserved = with_slack;
    if (!sti_account_reserve(scope->account, scope->charged, scope->reserved, with_slack)) {
        reserved = needed;
        if (!sti_account_reserve(scope->account, scope->charged, scope->reserved, needed))
            return false;
    }
    scope->reserved = reserved;
    return true;
}

struct measurement {
    struct passed passed;
    size_t wanted; /* that is asked for */
    bool possible; /* to have */
    size_t held;   /* by the scopes measured so far */
};

static bool passes_memory_limit(const struct sti_scope *scope, size_t held, size_t wanted)
{
    if (scope->share != NULL)
        return !sti_group_hold(scope->share, held, wanted);
    return scope->memory_limit != 0 && sti_saturating_add(held, wanted) > scope->memory_limit;
}

static uint64_t held_by_all(const struct sti_share *share)
{
    return atomic_load_explicit(&share->group->held, memory_order_relaxed);
}

/* Measure the scope and those around it. Returns how many bytes may be charged before the next time. What inner scopes
 * learn of those around them stays known when they end. */
static uint64_t measure_outwards(const struct sti_thread *thread, struct sti_scope *scope, struct measurement *all)
{
    size_t held = all->held += sti_heap_held(scope);
    bool passes = passes_memory_limit(scope, held, all->wanted);
    if (passes)
        all->passed = (struct passed){ scope, STINT_REASON_MEMORY_LIMIT };
    scope->peak = amount_max(scope->peak, held);
    scope->granted_peak = amount_max(scope->peak, all->possible && !passes ? held + all->wanted : held);
    sti_reporting_measured(scope, held);
    if (scope->warn != 0)
        sti_warning_look_at_held(scope, (scope->share != NULL ? held_by_all(scope->share) : held) +
                                            (all->possible ? all->wanted : 0));
    uint64_t until_peak = until_peak_check(scope, thread->used - scope->begin, held);
    uint64_t until_check = bytes_chargeable(until_peak);
    if (scope->memory_limit != 0)
        until_check = amount_min(until_check, until_limit_check(scope, held));
    if (scope->account != NULL && !passes) {
        if (!all->possible || !memory_reserve(scope, held + all->wanted, until_peak))
            all->passed = (struct passed){ scope, STINT_REASON_ACCOUNT };
        until_check =
            amount_min(until_check, bytes_chargeable(amount_max(scope->reserved, held + SMALLEST_SLACK) - held));
    }
    if (scope->outer != NULL) {
        uint64_t until_outer_check = measure_outwards(thread, scope->outer, all);
        scope->below_memory_check = thread->used + until_outer_check;
        until_check = amount_min(until_check, until_outer_check);
    }
    return until_check;
}

/* Walk what the scope and those around it hold and set the next check; so many bytes more are to be held. */
static struct passed scope_measure(struct sti_thread *thread, size_t wanted)
{
    bool possible = wanted <= 2 * LARGEST_CHARGE;
    struct measurement all = { .wanted = wanted, .possible = possible };
    thread->memory_check = thread->used + measure_outwards(thread, thread->scope, &all);
    const struct sti_share *share = sti_group_member(thread->scope);
    if (share != NULL)
        all.held = held_by_all(share);
    if (possible)
        all.held += all.wanted;
    if (share != NULL)
        sti_global_note_held(share->group->interrupt.thread, share->group->interrupt.task, all.held);
    else
        sti_global_note_held(thread, atomic_load_explicit(&thread->task, memory_order_relaxed), all.held);
    return all.passed;
}

/* Measure after collecting what other threads have freed, which counts until it is collected. */
static struct passed measure_collected(struct sti_thread *thread, size_t wanted)
{
    struct sti_share *share = sti_group_member(thread->scope);
    if (share != NULL)
        sti_group_note_asked(share);
    for (struct sti_scope *scope = thread->scope; scope != NULL; scope = scope->outer)
        sti_heap_measure_exactly(thread, scope);
    return scope_measure(thread, wanted);
}

/* Ask the task's other threads, which may hold less than the group knows, and measure again. */
static struct passed measure_with_others(struct sti_thread *thread, size_t wanted, struct passed passed)
{
    struct sti_group *group = passed.scope->share->group;
    sti_group_ask_others(group);
    for (unsigned turn = 0; passed.reason == STINT_REASON_MEMORY_LIMIT && sti_group_let_others_run(group, turn); turn++)
        passed = scope_measure(thread, wanted);
    return passed;
}

/* Measure before a limit is called passed, and where another thread of the task asks for it. */
static struct passed measure_exactly(struct sti_thread *thread, size_t wanted)
{
    const struct sti_share *share = sti_group_member(thread->scope);
    struct passed passed = { .scope = NULL };
    if ((share == NULL || !sti_group_is_asked(share)) && (passed = scope_measure(thread, wanted)).scope == NULL)
        return passed;
    passed = measure_collected(thread, wanted);
    if (passed.reason == STINT_REASON_MEMORY_LIMIT && passed.scope->share != NULL)
        passed = measure_with_others(thread, wanted, passed);
    return passed;
}

static struct sti_scope *outermost_passed(struct sti_scope *scope, uint64_t after)
{
    struct sti_scope *passed = NULL;
    if (after <= scope->allocation_end)
        return NULL;
    for (; scope != NULL; scope = scope->outer) {
        if (after > scope->own_end && scope->share == NULL)
            passed = scope;
    }
    return passed;
}

static uint64_t renew_allocation_end(struct sti_scope *scope)
{
    uint64_t outer_end = scope->outer != NULL ? renew_allocation_end(scope->outer) : UINT64_MAX;
    return scope->allocation_end = amount_min(scope->own_end, outer_end);
}

/* The task's own limit, when that is one of several threads. The last thing that is asked: what has been drawn will be
 * charged. The next sample is due before the new end; so the limit that has been stored may stay. */
static void draw_from_group(struct sti_scope *innermost, struct sti_share *share, uint64_t charge)
{
    struct sti_scope *task = sti_scope_outermost(innermost);
    uint64_t after = sti_saturating_add(task->thread->used, charge);
    if (after <= task->own_end)
        return;
    bool possible = charge <= LARGEST_CHARGE;
    if (possible ? !sti_group_draw(share, task, after) : charge > sti_group_allocation_limit(share->group))
        sti_interrupt_trip(task, STINT_REASON_ALLOCATION_LIMIT);
    else
        renew_allocation_end(innermost);
}

/* Somebody has changed the limits of the task that the thread runs (platform/limits.h): go by those of bytes from now
 * on. All ends and checks are set anew. */
static __attribute__((noinline, cold)) void scope_take_limits(struct sti_thread *thread, struct sti_scope *task)
{
    task->limits_counted =
        sti_limits_version(sti_scope_limits(task)); /* first: what is changed after that is taken again */
    if (sti_scope_limits(task)->changed != NULL)
        return;
    const stint_budget budget = sti_limits_read(sti_scope_limits(task));
    if (task->share != NULL)
        sti_group_take_limits(task->share, task, budget.allocation, budget.memory);
    else
        task->own_end = sti_limits_end(task->begin, budget.allocation);
    task->memory_limit = budget.memory;
    if (task->warn != 0)
        sti_warning_mark_bytes(task, &budget);
    renew_allocation_end(thread->scope);
    thread->memory_check = 0;
}

/* What the scope has allocated when its thread's used is this, with what is known of the task's other threads. */
static uint64_t scope_allocated(const struct sti_scope *scope, uint64_t used)
{
    const struct sti_share *share = scope->share;
    uint64_t allocated = used - scope->begin;
    return share == NULL ? allocated
                         : allocated + atomic_load_explicit(&share->group->used, memory_order_relaxed) - share->used;
}

static void warn_of_allocated(struct sti_scope *innermost, uint64_t after)
{
    for (struct sti_scope *scope = innermost; scope != NULL; scope = scope->outer) {
        if (scope->warn != 0)
            sti_warning_look_at_allocated(scope, scope_allocated(scope, after));
    }
}

static void publish_usage(const struct sti_scope *task)
{
    const struct sti_share *share = task->share;
    uint64_t allocated = scope_allocated(task, task->thread->used);
    uint64_t peak = share != NULL ? atomic_load_explicit(&share->group->peak, memory_order_relaxed) : task->peak;
    atomic_store_explicit(&sti_scope_limits(task)->allocated, allocated, memory_order_relaxed);
    atomic_store_explicit(&sti_scope_limits(task)->peak, peak, memory_order_relaxed);
}

static bool has_limit_of_time(const struct sti_scope *scope)
{
    while (scope != NULL && sti_scope_deadline(scope) == UINT64_MAX && scope->cpu.look == UINT64_MAX)
        scope = scope->outer;
    return scope != NULL;
}

/* Where the clock has not moved between two looks, the second was in vain. */
static uint64_t until_deadline_look(struct sti_thread *thread, uint64_t tick)
{
    thread->deadline_interval =
        tick == thread->last_tick ? amount_min(2 * thread->deadline_interval, LONGEST_INTERVAL) : DEADLINE_INTERVAL;
    thread->last_tick = tick;
    return thread->deadline_interval;
}

/* tick is the time when some scope has a limit of it, otherwise 0. */
static uint64_t next_sample(struct sti_thread *thread, uint64_t after, uint64_t tick)
{
    if (thread->scope->keeps > 0)
        return 0;
    uint64_t limit = amount_min(thread->scope->allocation_end, thread->memory_check);
    limit = amount_min(limit, thread->sampling.next);
    for (const struct sti_scope *scope = thread->scope; scope != NULL; scope = scope->outer) {
        if (scope->account != NULL)
            limit = amount_min(limit, scope->granted_end);
        if (scope->warn != 0)
            limit = amount_min(limit, scope->marks.allocated_end);
    }
    return amount_min(limit, after + (tick != 0 ? until_deadline_look(thread, tick) : LONGEST_INTERVAL));
}

bool sti_meter_is_kept_block(const struct sti_thread *thread, const void *caller)
{
    return sti_caller_is_loader(caller) || sti_thread_metered == NULL || thread->scope->keeps > 0 ||
           sti_caller_is_kept(caller);
}

/* libc does without a locale, the tables of an encoding or a time zone for as long as the process lives, if the first
 * use is refused memory. So libc has a reserve. */
static bool draw_libc_reserve(struct sti_scope *scope, uint64_t charge, const void *caller)
{
    bool has = charge <= scope->libc_left && sti_caller_is_system(caller);
    if (has)
        scope->libc_left -= charge;
    return has;
}

/* A task that is committed goes on after an allocation that failed, and tidies up: an interpreter may need blocks for
 * the very exception by which it says so, and CPython 3.11 tries for ever to make a number for a handler. */
static bool draw_to_tidy_up(struct sti_scope *scope, uint64_t charge)
{
    return (scope->request->options->flags & STINT_COMMIT) != 0 && sti_interrupt_draw_grace(scope, charge);
}

/* An interrupt is due, or waits for one that is not. */
static bool refuse_or_defer(struct sti_thread *thread, uint64_t charge, const void *caller)
{
    struct sti_scope *scope = thread->scope;
    const void *nothrow_call = thread->may_throw ? NULL : caller;
    bool was_refused = scope->refused;
    thread->may_throw = false;          /* what is called from here on is another call */
    if (sti_caller_must_wait(caller)) { /* libc's or the loader's own code */
        sti_deferral_count(thread, STINT_DEFERRAL_FRAME);
        sti_reporting_deferred(thread, STINT_DEFERRAL_FRAME, caller, NULL);
    } else if (sti_interrupt_deliver_allocating(thread, nothrow_call) && !sti_cxx_allocates_exception(caller)) {
        if (!was_refused || !draw_to_tidy_up(scope, charge))
            return false;
        thread->used += charge;
        return true;
    }
    if (!sti_caller_ends_process(caller) && !draw_libc_reserve(scope, charge, caller) &&
        !sti_interrupt_draw_grace(scope, charge)) {
        sti_interrupt_last_resort(thread, nothrow_call);
        return false;
    }
    thread->used += charge;
    return true;
}

/* The request of a sample point, and what the sample point has found out about it. */
struct asked {
    uint64_t charge;
    size_t size;
    uint64_t after; /* the thread's used, when it is charged */
    struct sti_scope *task;
    struct sti_share *share;
    uint64_t samples;       /* of the running profile that fall in it, */
    bool is_drawn;          /* and have been drawn */
    bool is_kept, possible; /* its block is the process's; can be had; */
    bool is_measured;       /* what the scopes hold has been, with it */
};

/* Collect what has to be known before budgets are compared, of the profile and of the task's other threads. */
static inline void meter_collect(struct sti_thread *thread, struct asked *asked, const void *caller)
{
    asked->after = sti_saturating_add(thread->used, asked->charge);
    asked->possible = asked->charge <= LARGEST_CHARGE;
    asked->is_kept = sti_meter_is_kept_block(thread, caller);
    asked->task = sti_scope_outermost(thread->scope);
    asked->share = asked->task->share;
    thread->scope->samples++;
    if (sti_scope_new_limits(asked->task, asked->task->limits_counted) != 0)
        scope_take_limits(thread, asked->task);
    if (asked->share != NULL && (sti_group_must_measure(asked->share, asked->after) || asked->charge > LARGE))
        thread->memory_check = 0;
    if (!sti_sampling_is_joined(&thread->sampling))
        sti_hooks.sampling.join(thread);
    asked->is_drawn = asked->possible && asked->after > thread->sampling.next;
    asked->samples = asked->is_drawn ? sti_hooks.sampling.draw(thread, asked->charge) : 0;
}

/* The bytes that the block will hold; for a size that cannot be had, the largest size that can be asked for. */
static size_t asked_bytes(const struct asked *asked)
{
    if (asked->is_kept)
        return 0;
    if (asked->size == STI_METER_PAGES)
        return asked->possible ? asked->charge : SIZE_MAX;
    return asked->size <= LARGEST_CHARGE ? sti_backend_block_size(asked->size) : asked->size;
}

/* Compare each budget exactly, and trip what passes one. */
static inline void look_at_budgets(struct sti_thread *thread, struct asked *asked)
{
    struct sti_scope *scope = thread->scope;
    struct sti_scope *passed = outermost_passed(scope, asked->after);
    if (passed != NULL)
        sti_interrupt_trip(passed, STINT_REASON_ALLOCATION_LIMIT);
    else if (asked->possible && (passed = sti_account_draw(scope, asked->after)) != NULL)
        sti_interrupt_trip(passed, STINT_REASON_ACCOUNT);
    warn_of_allocated(scope, asked->after);
    if (asked->after > thread->memory_check) {
        struct passed memory = measure_exactly(thread, asked_bytes(asked));
        asked->is_measured = true;
        if (memory.scope != NULL)
            sti_interrupt_trip(memory.scope, memory.reason);
    }
    if (sti_global_is_limited())
        sti_global_look();
}

/* Look at what other threads have set: first store the new limit, then read the flags (thread.h). */
static inline void look_at_flags(struct sti_thread *thread, const struct asked *asked)
{
    struct sti_scope *scope = thread->scope;
    uint64_t tick = has_limit_of_time(scope) ? sti_next_deadline_clock(thread) : 0;
    atomic_store_explicit(&thread->limit, next_sample(thread, asked->after, tick), memory_order_seq_cst);
    sti_interrupt_look(scope, tick);
    if (!sti_sampling_is_joined(&thread->sampling) || (asked->share != NULL && sti_group_is_asked(asked->share)) ||
        sti_scope_new_limits(asked->task, asked->task->limits_counted) != 0)
        atomic_store_explicit(&thread->limit, 0, memory_order_relaxed);
    if (asked->share != NULL && asked->after > scope->allocation_end && !sti_interrupt_is_tripped(scope))
        draw_from_group(scope, asked->share, asked->charge);
}

static inline void meter_look(struct sti_thread *thread, struct asked *asked, const void *caller)
{
    meter_collect(thread, asked, caller);
    look_at_budgets(thread, asked);
    look_at_flags(thread, asked);
    if (sti_scope_limits(asked->task) != NULL)
        publish_usage(asked->task);
}

/* An interrupt is due: the next allocation is a sample point, too, and what this one drew and reserved goes back, but
 * for a little. */
static void asked_give_back(struct sti_thread *thread, const struct asked *asked)
{
    atomic_store_explicit(&thread->limit, 0, memory_order_relaxed);
    if (asked->is_measured && asked->charge > LARGE)
        scope_measure(thread, 0);
    if (asked->share != NULL)
        sti_group_hold_no_more(asked->share);
    sti_account_draw_back(thread->scope);
}

/* What has just been measured holds the block as well. It counts for the peaks now, and only if it is granted: the
 * next measurement may come after it is freed. */
static void raise_peaks(struct sti_scope *scope, const struct asked *asked)
{
    for (; scope != NULL; scope = scope->outer)
        scope->peak = scope->granted_peak;
    if (asked->share != NULL)
        sti_group_granted(asked->share, asked_bytes(asked));
}

/* While an interrupt waits, a block may be granted that was to be refused when it was measured. */
static void measure_deferred(struct sti_scope *scope, size_t block)
{
    for (size_t held = block; scope != NULL; scope = scope->outer) {
        held += sti_heap_held(scope);
        scope->granted_peak = amount_max(scope->peak, held);
    }
}

/* Charge it, refuse it, or deliver an interrupt. */
static inline bool asked_decide(struct sti_thread *thread, const struct asked *asked, const void *caller)
{
    if (__builtin_expect(sti_interrupt_is_tripped(thread->scope), 0)) {
        asked_give_back(thread, asked);
        if (!refuse_or_defer(thread, asked->charge, caller))
            return false;
        if (asked->is_measured)
            measure_deferred(thread->scope, asked_bytes(asked));
    } else if (!asked->possible) {
        return false;
    } else {
        thread->used = asked->after;
    }
    if (asked->is_measured)
        raise_peaks(thread->scope, asked);
    return true;
}

bool sti_meter_sample(struct sti_thread *thread, uint64_t charge, size_t size, const void *caller)
{
    int saved_errno = errno;
    if (__builtin_expect(sti_thread_metered == NULL, 0)) {
        sti_hooks.sampling.meter_outside(thread, charge);
        errno = saved_errno;
        return true;
    }
    struct asked asked = { .charge = charge, .size = size };
    meter_look(thread, &asked, caller);
    bool allowed = asked_decide(thread, &asked, caller);
    if (asked.is_drawn && !allowed)
        sti_hooks.sampling.draw_again(thread);
    thread->sampling.samples = allowed ? asked.samples : 0;
    errno = allowed ? saved_errno : ENOMEM;
    return allowed;
}

/* Somebody has asked for a sample, maybe because of limits that have been changed. */
static __attribute__((noinline, cold)) void sample_nothing(struct sti_thread *thread, const void *caller)
{
    struct asked asked = { .charge = 0 };
    int saved_errno = errno;
    meter_look(thread, &asked, caller);
    if (sti_interrupt_is_tripped(thread->scope))
        asked_give_back(thread, &asked);
    errno = saved_errno;
}

void stint_checkpoint(void)
{
    struct sti_thread *thread = sti_thread_metered;
    if (thread == NULL)
        return;
    if (__builtin_expect(atomic_load_explicit(&thread->limit, memory_order_relaxed) == 0, 0) &&
        !sti_interrupt_is_tripped(thread->scope))
        sample_nothing(thread, STI_CALLER());
    else
        thread->scope->samples++;
    sti_interrupt_point(thread);
}
