/* SPDX-License-Identifier: MIT
 *
 * Guards: the innermost scope's list of release actions, on the stack frames that pushed them. Thread of the scope only.
 * A guard is off the list before its release runs, so none runs twice. */
#include <stddef.h>
#include <stint/interrupt.h>

#include "interrupt.h"
#include "scope_state.h"
#include "thread.h"

void stint_guard_push(stint_guard *guard, void (*release)(void *arg), void *arg)
{
    *guard = (stint_guard){ .release = release, .arg = arg, .below = NULL };
    struct sti_thread *thread = sti_thread_metered;
    if (thread == NULL)
        return;
    guard->below = thread->scope->guards;
    thread->scope->guards = guard;
}

static bool take_off(struct sti_scope *scope, const stint_guard *guard)
{
    stint_guard **link = &scope->guards;
    while (*link != NULL && *link != guard)
        link = &(*link)->below;
    if (*link == NULL)
        return false;
    *link = guard->below;
    return true;
}

static void release(const stint_guard *guard)
{
    if (guard->release != NULL)
        guard->release(guard->arg);
}

void stint_guard_pop(stint_guard *guard, bool run)
{
    struct sti_thread *thread = sti_thread_metered;
    if (thread == NULL) {
        if (run)
            release(guard);
        return;
    }
    if (!take_off(thread->scope, guard) || !run)
        return;
    stint_mask();
    release(guard);
    stint_unmask();
}

void sti_guard_run_below(struct sti_scope *scope, uintptr_t address)
{
    while (scope->guards != NULL && (uintptr_t)scope->guards < address) {
        stint_guard *guard = scope->guards;
        scope->guards = guard->below;
        release(guard);
    }
}

void sti_guard_run_all(struct sti_scope *scope)
{
    scope->masks++;
    sti_guard_run_below(scope, UINTPTR_MAX);
}
