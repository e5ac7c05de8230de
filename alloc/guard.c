/* SPDX-License-Identifier: MIT
 *
 * Guards: the innermost scope's list of release actions, on the stack frames that pushed them. Thread of the scope only.
 * A guard is off the list before its release runs, so none runs twice. The mutexes that the scope holds are on a list of
 * their own, because a guard that somebody forgot to pop must not be looked at when the scope has ended; both are
 * numbered in the order of their pushes. */
#include <stddef.h>
#include <stint/guard.h>
#include <stint/interrupt.h>

#include "boundary.h"
#include "interrupt.h"
#include "mutex.h"
#include "scope_state.h"
#include "thread.h"

void stint_guard_push(stint_guard *guard, void (*release)(void *arg), void *arg)
{
    *guard = (stint_guard){ .release = release, .arg = arg };
    struct sti_thread *thread = sti_thread_metered;
    if (thread == NULL)
        return;
    guard->order = ++thread->scope->pushes;
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

static void release_once(stint_guard *guard)
{
    void (*release)(void *) = guard->release;
    guard->release = NULL;
    if (release != NULL)
        STI_BOUNDARY_CALLBACK("release", release, guard->arg, NULL, NULL);
}

void stint_guard_pop(stint_guard *guard, bool run)
{
    struct sti_thread *thread = sti_thread_metered;
    if (thread == NULL) {
        if (run)
            release_once(guard);
        return;
    }
    if (!take_off(thread->scope, guard) || !run)
        return;
    stint_mask();
    release_once(guard);
    stint_unmask();
}

static void abandon_mutexes_newer_than_the_guards(struct sti_scope *scope)
{
    while (scope->mutexes != NULL && (scope->guards == NULL || scope->mutexes->order > scope->guards->order))
        sti_mutex_abandon_newest(scope);
}

void sti_guard_run_below(struct sti_scope *scope, uintptr_t address)
{
    while (scope->guards != NULL && (uintptr_t)scope->guards < address) {
        abandon_mutexes_newer_than_the_guards(scope);
        stint_guard *guard = scope->guards;
        scope->guards = guard->below;
        release_once(guard);
    }
}

void sti_guard_run_all(struct sti_scope *scope)
{
    scope->masks++;
    sti_mutex_poison_all(scope);
    sti_guard_run_below(scope, UINTPTR_MAX);
    abandon_mutexes_newer_than_the_guards(scope);
}
