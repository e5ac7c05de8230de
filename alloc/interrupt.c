/* SPDX-License-Identifier: MIT
 *
 * Interrupts and masks; see interrupt.h. Thread of the scope only.
 *
 * Who holds what at the instant of the jump? This library: nothing; a sample point lies before mimalloc is entered, and
 * no list of ours is half changed. libc, the loader, the C++ runtime: nothing, as no frame of theirs lies between
 * (caller.h). The task's code: no lock, no once, no static initialiser, no caught exception (hold.h); what else it may
 * hold, it masks or guards. */
#undef _FORTIFY_SOURCE /* its longjmp refuses to leave a stack that the task switched to by itself */
#include "interrupt.h"

#include <setjmp.h>
#include <stdint.h>

#include "caller.h"
#include "clock.h"
#include "hook.h"
#include "rules.h"
#include "scope_state.h"
#include "thread.h"
#include "token.h"

void sti_interrupt_trip(struct sti_scope *scope, stint_reason reason)
{
    if (scope->tripped == STINT_REASON_NONE)
        scope->tripped = reason;
}

void sti_interrupt_look(struct sti_scope *innermost, uint64_t now)
{
    for (struct sti_scope *scope = innermost; scope != NULL; scope = scope->outer) {
        if (scope->tripped != STINT_REASON_NONE)
            continue;
        if (stint_token_is_set(scope->stop)) {
            sti_interrupt_trip(scope, STINT_REASON_SHUTDOWN);
        } else if (stint_token_is_set(scope->token)) {
            sti_interrupt_trip(scope, STINT_REASON_TOKEN);
        } else if (scope->deadline != UINT64_MAX) {
            if (now == 0)
                now = sti_clock_coarse();
            if (now >= scope->deadline)
                sti_interrupt_trip(scope, STINT_REASON_DEADLINE);
        }
    }
}

bool sti_interrupt_is_tripped(const struct sti_scope *innermost)
{
    const struct sti_scope *scope = innermost;
    while (scope != NULL && scope->tripped == STINT_REASON_NONE)
        scope = scope->outer;
    return scope != NULL;
}

static bool may_leave(const struct sti_scope *scope)
{
    return scope->masks == 0 && !sti_rules_hold(&scope->holds);
}

/* Code that is told to stop by a failed allocation is not left behind, so what it holds does not matter. */
static bool is_due(const struct sti_scope *innermost)
{
    bool leaves = innermost->on_interrupt == STINT_FAIL ? innermost->masks == 0 : may_leave(innermost);
    const struct sti_scope *scope = innermost;
    while (leaves && scope != NULL && scope->tripped == STINT_REASON_NONE) {
        scope = scope->outer;
        leaves = scope != NULL && may_leave(scope);
    }
    return leaves;
}

static bool deliver(struct sti_thread *thread, uintptr_t above)
{
    struct sti_scope *scope = thread->scope;
    if (scope->hooks != NULL)
        sti_hook_fire(scope);
    if (!is_due(scope) || (scope->on_interrupt == STINT_JUMP && !sti_caller_stack_is_safe(scope, above))) {
        scope->deferred++;
        return false;
    }
    sti_interrupt_trip(scope, STINT_REASON_OUTER);
    if (scope->on_interrupt == STINT_FAIL)
        return true;
    sti_guard_run_all(scope);
    sti_hook_drop(scope);
    longjmp(scope->landing, 1);
}

bool sti_interrupt_deliver(struct sti_thread *thread)
{
    return deliver(thread, 0);
}

void sti_interrupt_preempt(struct sti_thread *thread, uintptr_t stack_pointer)
{
    sti_interrupt_look(thread->scope, sti_clock_now());
    if (sti_interrupt_is_tripped(thread->scope))
        deliver(thread, stack_pointer);
}

void sti_interrupt_point(struct sti_thread *thread)
{
    sti_interrupt_look(thread->scope, 0);
    if (__builtin_expect(sti_interrupt_is_tripped(thread->scope), 0))
        sti_interrupt_deliver(thread);
}

void stint_checkpoint(void)
{
    struct sti_thread *thread = sti_thread_metered;
    if (thread == NULL)
        return;
    thread->scope->samples++;
    sti_interrupt_point(thread);
}

bool stint_interrupted(void)
{
    const struct sti_thread *thread = sti_thread_metered;
    return thread != NULL && sti_interrupt_is_tripped(thread->scope);
}

void stint_mask(void)
{
    struct sti_thread *thread = sti_thread_metered;
    if (thread != NULL)
        thread->scope->masks++;
}

void stint_unmask(void)
{
    struct sti_thread *thread = sti_thread_metered;
    if (thread != NULL && thread->scope->masks > 0 && --thread->scope->masks == 0)
        sti_interrupt_point(thread);
}
