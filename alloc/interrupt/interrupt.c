/* SPDX-License-Identifier: MIT
 *
 * Interrupts and masks: when one is found, when it may be delivered and what it has to wait for; see interrupt.h.
 * Thread of the scope only. */
#undef _FORTIFY_SOURCE /* its longjmp refuses to leave a stack that the task switched to by itself */

#include "interrupt.h"

#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/interrupt.h>
#include <stint/memory.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alloc/platform/clock.h"
#include "alloc/platform/instrumentation.h"
#include "alloc/platform/module.h"
#include "alloc/platform/reporting.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"
#include "alloc/platform/tracing.h"
#include "cxx.h"
#include "forks.h"
#include "hold.h"
#include "safe.h"
#include "stack.h"
#include "token.h"
#include "warning.h"
#include "watch.h"

/* --- Interrupts and masks. Thread of the scope only.
 *
 * Who holds what at the instant of the jump? This library: nothing; a sample point lies before mimalloc is entered, and
 * no list of ours is half changed. libc, the loader, the C++ runtime, and libraries of which it is not known that they
 * may be left: nothing, as no frame of theirs lies between (safe.h). The task's code: no lock, no once, no static
 * initialiser, no caught exception (hold.h), none on its way; what else it may hold, it masks or guards. */

#define BETTER_PLACE_CHARGE ((size_t)1 << 10) /* to the grace, for each wait for one: unwind.h */
#define FIRST_GAP ((uint64_t)1 << 10)         /* bytes that are allocated until frames are walked again */
#define LARGEST_GAP ((uint64_t)16 << 10)

stint_reason sti_interrupt_trip_shared(struct sti_shared_interrupt *shared, stint_reason reason)
{
    stint_reason before = STINT_REASON_NONE;
    if (!atomic_compare_exchange_strong_explicit(&shared->tripped, &before, reason, memory_order_seq_cst,
                                                 memory_order_seq_cst))
        return before;
    sti_thread_request_samples();
    sti_watch_wake();
    return reason;
}

void sti_interrupt_trip(struct sti_scope *scope, stint_reason reason)
{
    if (scope->tripped != STINT_REASON_NONE || scope->finished)
        return;
    scope->tripped = scope->share != NULL ? sti_interrupt_trip_shared(scope->shared, reason) : reason;
    if (sti_scope_limits(scope) != NULL)
        sti_limits_note_stop(sti_scope_limits(scope));
    STI_PROBE2(tripped, scope, scope->tripped);
    if (sti_trace_runs())
        sti_trace_interrupt(STI_TRACE_TRIPPED, (int)scope->tripped);
    sti_reporting_tripped(scope);
}

bool sti_interrupt_is_victim(const struct sti_scope *scope)
{
    if (scope->share != NULL)
        return sti_thread_has_victim(scope->shared->thread, scope->shared->task);
    return sti_thread_has_victim(scope->thread, scope->number);
}

bool sti_interrupt_has_tripped_elsewhere(const struct sti_scope *scope)
{
    return scope->share != NULL &&
           atomic_load_explicit(&scope->shared->tripped, memory_order_seq_cst) != STINT_REASON_NONE;
}

static void look_at_time(struct sti_scope *scope, const struct sti_scope *innermost, uint64_t now)
{
    if (scope->warn != 0)
        sti_warning_look_at_time(scope, now);
    if (now >= sti_scope_deadline(scope))
        sti_interrupt_trip(scope, STINT_REASON_DEADLINE);
    else if (now >= scope->cpu.look && sti_cpu_is_exhausted(scope, now))
        sti_interrupt_trip(scope, STINT_REASON_CPU);
    else if (sti_next_deadline_has_come(innermost->thread))
        sti_next_deadline_renew(innermost->thread, innermost);
}

void sti_interrupt_look(struct sti_scope *innermost, uint64_t now)
{
    uint64_t looked = atomic_load_explicit(&sti_thread_requests, memory_order_seq_cst); /* before the flags: thread.h */
    uint64_t timed = 0;
    for (struct sti_scope *scope = innermost; scope != NULL; scope = scope->outer) {
        if (scope->tripped != STINT_REASON_NONE || scope->finished)
            continue;
        if (sti_scope_new_limits(scope, scope->limits_timed) != 0)
            sti_deadline_take_limits(scope, innermost);
        if (sti_interrupt_has_tripped_elsewhere(scope)) {
            scope->tripped = atomic_load_explicit(&scope->shared->tripped, memory_order_seq_cst);
        } else if (sti_token_is_set(scope->stop)) {
            sti_interrupt_trip(scope, STINT_REASON_SHUTDOWN);
        } else if (sti_token_is_set(scope->token)) {
            sti_interrupt_trip(scope, STINT_REASON_TOKEN);
        } else if (scope->outer == NULL && sti_interrupt_is_victim(scope)) {
            sti_interrupt_trip(scope, STINT_REASON_GLOBAL_MEMORY_LIMIT);
        } else if (sti_scope_deadline(scope) != UINT64_MAX || scope->cpu.look != UINT64_MAX) {
            if (now == 0)
                now = sti_next_deadline_clock(innermost->thread);
            look_at_time(scope, innermost, now);
            timed = STI_LOOKED_TIMED;
        }
    }
    innermost->looked = looked | timed;
}

bool sti_interrupt_is_tripped(const struct sti_scope *innermost)
{
    const struct sti_scope *scope = innermost;
    while (scope != NULL && scope->tripped == STINT_REASON_NONE)
        scope = scope->outer;
    return scope != NULL;
}

/* A module that was loaded since the scope opened may have brought one. */
static void find_runtimes(struct sti_scope *innermost)
{
    sti_cxx_look();
    for (struct sti_scope *scope = innermost; scope != NULL; scope = scope->outer)
        sti_cxx_extend(&scope->cxx);
}

/* Code that is told to stop by a failed allocation is not left behind, so what it holds does not matter. */
static stint_deferral refusal_waits_for(const struct sti_scope *innermost)
{
    const struct sti_scope *scope = innermost;
    stint_deferral deferral = innermost->masks > 0 ? STINT_DEFERRAL_MASK : STINT_DEFERRAL_NONE;
    while (deferral == STINT_DEFERRAL_NONE && scope->tripped == STINT_REASON_NONE && scope->outer != NULL) {
        scope = scope->outer;
        deferral = sti_deferral_of_one(scope);
    }
    return deferral;
}

#define KERNEL_MASK_SIZE ((size_t)8)

void sti_interrupt_jump(struct sti_scope *scope, const sigset_t *mask)
{
    if (mask != NULL)
        syscall(SYS_rt_sigprocmask, SIG_SETMASK, mask, NULL, KERNEL_MASK_SIZE);
    sti_forks_settle(scope, NULL);
    sti_hooks.run_guards(scope);
    sti_hooks.drop_hooks(scope);
    sti_real_longjmp(scope->resume_point, 1);
}

/* Of a frame that a signal has stopped no table tells what has to be cleaned up: from there it is always a jump. */
static bool scope_unwinds(const struct sti_scope *scope, const struct sti_registers *stopped)
{
    return scope->on_interrupt == STINT_UNWIND && stopped == NULL;
}

struct sti_scope *sti_interrupt_outermost_tripped(struct sti_scope *scope)
{
    struct sti_scope *tripped = scope;
    for (; scope != NULL; scope = scope->outer) {
        if (scope->tripped != STINT_REASON_NONE)
            tripped = scope;
    }
    return tripped;
}

bool sti_interrupt_draw_grace(struct sti_scope *innermost, uint64_t charge)
{
    struct sti_scope *end = sti_interrupt_outermost_tripped(innermost)->outer;
    for (const struct sti_scope *scope = innermost; scope != end; scope = scope->outer) {
        if (charge > scope->grace_left)
            return false;
    }
    for (struct sti_scope *scope = innermost; scope != end; scope = scope->outer)
        scope->grace_left -= charge;
    return true;
}

/* plain_call: unwind.h. Far fewer frames are looked at than for the verdict. */
static bool waits_for_better_place(struct sti_scope *scope, const void *nothrow_call)
{
    return !sti_hooks.unwind_may_begin(scope, nothrow_call) && sti_interrupt_draw_grace(scope, BETTER_PLACE_CHARGE);
}

static void put_off_next_walk(struct sti_scope *scope)
{
    uint64_t gap = 2 * scope->walk_gap;
    scope->walk_gap = gap < FIRST_GAP ? FIRST_GAP : gap < LARGEST_GAP ? gap : LARGEST_GAP;
    scope->walk_at = scope->thread->used + scope->walk_gap;
}

static stint_deferral interrupt_waits_for(struct sti_scope *scope, const struct sti_registers *stopped,
                                          const void *nothrow_call)
{
    if (scope->on_interrupt == STINT_FAIL)
        return refusal_waits_for(scope);
    if (scope_unwinds(scope, stopped) && sti_deferral_of(scope) == STINT_DEFERRAL_NONE &&
        waits_for_better_place(scope, nothrow_call))
        return STINT_DEFERRAL_FRAME;
    stint_deferral deferral = sti_verdict(scope, stopped);
    if (deferral == STINT_DEFERRAL_FRAME && stopped == NULL)
        put_off_next_walk(scope);
    return deferral;
}

/* Where frames are not to be asked. */
static stint_deferral waits_for_still(const struct sti_scope *scope)
{
    stint_deferral deferral = sti_deferral_of(scope);
    return deferral == STINT_DEFERRAL_NONE ? STINT_DEFERRAL_FRAME : deferral;
}

/* Not again for a task that is refused one allocation after another. */
static void count_delivery(struct sti_scope *scope)
{
    if (!scope->refused) {
        STI_PROBE2(delivered, scope, scope->on_interrupt);
        if (sti_trace_runs())
            sti_trace_interrupt(STI_TRACE_DELIVERED, (int)scope->on_interrupt);
        sti_counter_add_own(&scope->thread->deliveries[scope->on_interrupt]);
    }
    scope->refused = true;
}

void sti_interrupt_note_leaving(struct sti_thread *thread, const struct sti_registers *stopped)
{
    sti_reporting_delivered(thread, stopped);
    sti_interrupt_trip(thread->scope, STINT_REASON_OUTER);
    count_delivery(thread->scope);
}

/* The frames that hooks lie on go one after the other. */
_Noreturn static void interrupt_leave(struct sti_thread *thread, const void *nothrow_call)
{
    struct sti_scope *scope = thread->scope;
    sti_interrupt_note_leaving(thread, NULL);
    if (!sti_hooks.unwind_may_begin(scope, nothrow_call))
        sti_interrupt_jump(scope, NULL);
    sti_hooks.drop_hooks(scope);
    sti_forks_settle(scope, NULL);
    sti_hooks.unwind_leave(scope);
    __builtin_unreachable();
}

/* Code that is refused its blocks, and goes on all the same until there is no stack left, is left in the end. */
static bool may_leave_at_last(const struct sti_scope *scope)
{
    return sti_stack_is_nearly_exhausted() && sti_verdict(scope, NULL) == STINT_DEFERRAL_NONE;
}

static bool interrupt_defer(struct sti_thread *thread, stint_deferral deferral, const struct sti_registers *stopped)
{
    sti_deferral_note(thread, deferral);
    sti_reporting_deferred(thread, deferral, NULL, stopped);
    return false;
}

/* stopped: where a signal has stopped the code; NULL: it has come here by itself. */
static bool interrupt_deliver(struct sti_thread *thread, const struct sti_registers *stopped, bool is_put_off,
                              const void *nothrow_call)
{
    struct sti_scope *scope = thread->scope;
    /* A signal is sent by the watch, which has called the hooks; and below the handler this thread may hold its
     * lock. */
    if (stopped == NULL) {
        sti_hooks.fire_hooks(scope);
        find_runtimes(scope);
    }
    stint_deferral deferral = is_put_off ? waits_for_still(scope) : interrupt_waits_for(scope, stopped, nothrow_call);
    if (deferral != STINT_DEFERRAL_NONE)
        return interrupt_defer(thread, deferral, stopped);
    if (scope_unwinds(scope, stopped))
        interrupt_leave(thread, nothrow_call);
    sti_interrupt_note_leaving(thread, stopped);
    if (scope->on_interrupt == STINT_FAIL && !may_leave_at_last(scope))
        return true;
    sti_interrupt_jump(scope, NULL);
}

/* With little stack left each allocation may be the last that may be left at. */
static bool is_walk_put_off(const struct sti_scope *scope)
{
    return scope->on_interrupt != STINT_FAIL && scope->thread->used < scope->walk_at &&
           !sti_stack_is_nearly_exhausted();
}

/* No block is refused for a frame that may have gone since it was met. */
void sti_interrupt_last_resort(struct sti_thread *thread, const void *nothrow_call)
{
    struct sti_scope *scope = thread->scope;
    if (is_walk_put_off(scope)) {
        scope->walk_at = 0;
        interrupt_deliver(thread, NULL, false, nothrow_call);
    }
    if (scope->on_interrupt == STINT_UNWIND && scope->unwind.under_way)
        sti_hooks.unwind_give_up(scope);
    else if (scope->on_interrupt == STINT_UNWIND && sti_verdict(scope, NULL) == STINT_DEFERRAL_NONE)
        interrupt_leave(thread, nothrow_call);
}

bool sti_interrupt_may_cut(struct sti_scope *innermost)
{
    unsigned masks = innermost->unwind.under_way ? 1 : 0;
    sti_hold_settle(innermost);
    struct sti_scope *scope = innermost;
    while (scope->masks == masks && !sti_rules_hold(&scope->holds) && scope->tripped == STINT_REASON_NONE &&
           scope->outer != NULL) {
        masks = 0;
        scope = scope->outer;
    }
    return scope->masks == masks && !sti_rules_hold(&scope->holds) && scope->tripped != STINT_REASON_NONE;
}

bool sti_interrupt_deliver(struct sti_thread *thread)
{
    return interrupt_deliver(thread, NULL, false, NULL);
}

bool sti_interrupt_deliver_allocating(struct sti_thread *thread, const void *nothrow_call)
{
    return interrupt_deliver(thread, NULL, is_walk_put_off(thread->scope), nothrow_call);
}

bool sti_interrupt_preempt(struct sti_thread *thread, const struct sti_registers *stopped)
{
    thread->stopped = stopped;
    sti_interrupt_look(thread->scope, sti_clock_now());
    thread->stopped = NULL;
    bool is_tripped = sti_interrupt_is_tripped(thread->scope);
    if (is_tripped)
        interrupt_deliver(thread, stopped, false, NULL);
    return is_tripped;
}

/* --- Delivery at the end of a stack. In the handler of the fault. --- */

/* The innermost scope that began above the middle of the stack, or the outermost. */
static struct sti_scope *stack_filler(struct sti_scope *innermost)
{
    uintptr_t middle = sti_stack_lowest() + (sti_stack_highest() - sti_stack_lowest()) / 2;
    struct sti_scope *scope = innermost;
    while (scope->outer != NULL && scope->frame < middle)
        scope = scope->outer;
    return scope;
}

/* Of a task that may go on, one in STINT_UNWIND is to come to a place from which it can be unwound, and one in
 * STINT_FAIL is to return. */
static bool may_leave_at_end(struct sti_scope *scope, const struct sti_registers *stopped, bool is_last)
{
    if (!sti_interrupt_is_tripped(scope) || (!is_last && scope->on_interrupt != STINT_JUMP))
        return false;
    stint_deferral deferral = sti_verdict_at_stack_end(scope, stopped);
    return deferral == STINT_DEFERRAL_NONE || interrupt_defer(scope->thread, deferral, stopped);
}

void sti_interrupt_at_stack_end(struct sti_thread *thread, const struct sti_registers *stopped, bool is_last,
                                const sigset_t *mask)
{
    struct sti_scope *scope = thread->scope;
    thread->stopped = stopped;
    sti_interrupt_trip(stack_filler(scope), STINT_REASON_STACK);
    thread->stopped = NULL;
    sti_thread_request_sample(thread);
    if (!may_leave_at_end(scope, stopped, is_last))
        return;
    sti_interrupt_note_leaving(thread, stopped);
    sti_interrupt_jump(scope, mask);
}

void sti_interrupt_leave_near_stack_end(struct sti_thread *thread)
{
    struct sti_scope *scope = thread->scope;
    if (!sti_stack_is_nearly_exhausted() || !sti_interrupt_is_tripped(scope) || !may_leave_at_last(scope))
        return;
    sti_interrupt_note_leaving(thread, NULL);
    sti_interrupt_jump(scope, NULL);
}

void sti_interrupt_point(struct sti_thread *thread)
{
    sti_interrupt_look_again(thread->scope, 0);
    if (__builtin_expect(sti_interrupt_is_tripped(thread->scope), 0))
        sti_interrupt_deliver(thread);
}

bool stint_finish(void)
{
    struct sti_scope *scope = sti_scope_metered();
    if (scope == NULL)
        return true;
    sti_interrupt_look(scope, sti_clock_now());
    if (scope->tripped != STINT_REASON_NONE)
        return false;
    scope->finished = true;
    scope->masks++;
    return true;
}

bool stint_is_interrupted(void)
{
    const struct sti_scope *scope = sti_scope_metered();
    return scope != NULL && sti_interrupt_is_tripped(scope);
}

void stint_mask(void)
{
    struct sti_scope *scope = sti_scope_metered();
    if (scope != NULL)
        scope->masks++;
}

void stint_unmask(void)
{
    struct sti_thread *thread = sti_thread_metered;
    if (thread != NULL && thread->scope->masks > 0 && --thread->scope->masks == 0)
        sti_interrupt_point(thread);
}

/* --- Regions whose blocks outlive a rollback. Calling thread's innermost scope. While there is one every allocation is
 * a sample point, so the fast path knows nothing of them.
 *
 * Most have no allocation in them. Then the next sample point stays where it was: the thread's limit is what marks the
 * region, a value that nobody else stores. Whatever has been stored meanwhile, by a sample point in the region or by
 * whoever requests one, stays. */

#define LIMIT_IN_KEEP UINT64_C(1) /* every allocation is charged more */

void stint_keep_begin(void)
{
    struct sti_thread *thread = sti_thread_metered;
    if (thread == NULL)
        return;
    struct sti_scope *scope = thread->scope;
    scope->masks++;
    if (scope->keeps++ > 0)
        return;
    scope->limit_outside_keep = atomic_load_explicit(&thread->limit, memory_order_relaxed);
    if (scope->limit_outside_keep > LIMIT_IN_KEEP) /* fails where somebody has stored 0 */
        atomic_compare_exchange_strong_explicit(&thread->limit, &scope->limit_outside_keep, LIMIT_IN_KEEP,
                                                memory_order_relaxed, memory_order_relaxed);
}

void stint_keep_end(void)
{
    struct sti_thread *thread = sti_thread_metered;
    if (thread == NULL || thread->scope->keeps == 0)
        return;
    struct sti_scope *scope = thread->scope;
    uint64_t limit = LIMIT_IN_KEEP;
    if (--scope->keeps == 0)
        atomic_compare_exchange_strong_explicit(&thread->limit, &limit, scope->limit_outside_keep, memory_order_seq_cst,
                                                memory_order_relaxed);
    stint_unmask();
}
