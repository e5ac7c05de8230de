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
#include "misuse.h"
#include "mutex.h"
#include "scope_state.h"
#include "thread.h"
#include "way.h"

/* What was pushed is what lies there, or the guard's frame has gone and is used by others. */
static uintptr_t check_of(const stint_guard *guard)
{
    const uintptr_t odd = UINT64_C(0x9e3779b97f4a7c15);
    uintptr_t sum = (uintptr_t)guard ^ (uintptr_t)guard->order;
    sum = sum * odd ^ (uintptr_t)guard->arg;
    return (sum * odd ^ (uintptr_t)guard->below) * odd;
}

static bool is_whole(const stint_guard *guard)
{
    return guard == NULL || guard->check == check_of(guard);
}

/* The scope's newest. When that frame has gone without a word (setcontext, a longjmp of libc's own), so have all that it
 * would lead to: their releases are lost, but nothing is called that was not pushed. */
static stint_guard *newest(struct sti_scope *scope)
{
    if (__builtin_expect(!is_whole(scope->guards), 0)) {
        sti_misuse_note(scope, "left the frame of a guard without popping it");
        scope->guards = NULL;
    }
    return scope->guards;
}

void stint_guard_push(stint_guard *guard, void (*release)(void *arg), void *arg)
{
    *guard = (stint_guard){ .release = release, .arg = arg };
    struct sti_thread *thread = sti_thread_metered;
    if (thread == NULL)
        return;
    guard->order = ++thread->scope->pushes;
    guard->below = thread->scope->guards;
    guard->check = check_of(guard);
    thread->scope->guards = guard;
}

static void unlink_guard(stint_guard **link, stint_guard *above)
{
    *link = (*link)->below;
    if (above != NULL)
        above->check = check_of(above);
}

static bool take_off(struct sti_scope *scope, const stint_guard *guard)
{
    stint_guard **link = &scope->guards;
    stint_guard *above = NULL;
    while (*link != NULL && *link != guard && is_whole(*link)) {
        above = *link;
        link = &above->below;
    }
    if (*link != guard || !is_whole(guard)) {
        newest(scope);
        return false;
    }
    unlink_guard(link, above);
    return true;
}

static void release_once(stint_guard *guard)
{
    void (*release)(void *) = guard->release;
    guard->release = NULL;
    if (release != NULL)
        STI_BOUNDARY_CALLBACK(sti_boundary_release, release, guard->arg, NULL, NULL);
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
    const stint_guard *guard = newest(scope);
    while (scope->mutexes != NULL && (guard == NULL || scope->mutexes->order > guard->order))
        sti_mutex_abandon_newest(scope);
}

void sti_guard_run_below(struct sti_scope *scope, uintptr_t address)
{
    while (newest(scope) != NULL && (uintptr_t)scope->guards < address) {
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

/* Others, on a stack that the task switched from, stay. */
void sti_guard_leave(struct sti_scope *scope, const struct sti_way *way)
{
    scope->masks++;
    stint_guard **link = &scope->guards;
    stint_guard *above = NULL;
    newest(scope);
    while (*link != NULL && is_whole(*link)) {
        stint_guard *guard = *link;
        if (sti_way_passes(way, (uintptr_t)guard)) {
            unlink_guard(link, above);
            release_once(guard);
        } else {
            above = guard;
            link = &guard->below;
        }
    }
    scope->masks--;
}
