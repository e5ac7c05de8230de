/* SPDX-License-Identifier: MIT
 *
 * Settling the forks of frames that are left; see forks.h. Thread of the scope only. */
#include "forks.h"

#include <errno.h>

#include "interrupt.h"
#include "misuse.h"

_Thread_local size_t sti_forks_in_joins;

int sti_forks_register(struct sti_forks *forks)
{
    struct sti_thread *thread = sti_thread_self();
    if (thread == NULL)
        return sti_thread_missing();
    /* release: who wakes it finds the record whole. */
    atomic_store_explicit(&thread->forks, forks, memory_order_release);
    return 0;
}

void sti_forks_wake(struct sti_thread *thread)
{
    struct sti_forks *forks = atomic_load_explicit(&thread->forks, memory_order_acquire);
    if (forks != NULL)
        forks->wake(forks);
}

static bool are_outstanding(const struct sti_scope *scope)
{
    return sti_forks_outstanding(scope->thread) != scope->forks;
}

void sti_forks_leave(struct sti_scope *scope, const struct sti_way *way)
{
    if (!are_outstanding(scope))
        return;
    struct sti_forks *forks = atomic_load_explicit(&scope->thread->forks, memory_order_relaxed);
    scope->masks++;
    forks->settle(forks, forks->not_left(forks, scope->forks, way));
    scope->masks--;
}

void sti_forks_settle(struct sti_scope *scope)
{
    sti_forks_in_joins = scope->joins;
    if (!are_outstanding(scope))
        return;
    struct sti_forks *forks = atomic_load_explicit(&scope->thread->forks, memory_order_relaxed);
    scope->masks++;
    forks->settle(forks, scope->forks);
    scope->masks--;
}

int sti_forks_give_up(struct sti_scope *scope)
{
    struct sti_scope *task = scope;
    if (sti_forks_are_left(scope))
        sti_misuse_note(scope, "returned without joining a fork");
    while (task->is_inner_branch)
        task = task->outer;
    sti_interrupt_trip(task, STINT_REASON_FAILED);
    sti_forks_settle(scope);
    return EINVAL;
}
