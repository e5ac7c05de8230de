/* SPDX-License-Identifier: MIT
 *
 * The forks of a thread, as scopes see them; see forks.h. Thread of the scope only. */
#include "forks.h"

#include <stddef.h>

#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"

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

_Thread_local size_t sti_own_forks;

/* Those of frames that a jump does not leave, too: nobody knows which they are. */
static void forget_own(const struct sti_scope *scope)
{
    if (sti_own_forks > scope->own_forks)
        sti_own_forks = scope->own_forks;
}

void sti_forks_settle(struct sti_scope *scope, const struct sti_way *way)
{
    forget_own(scope);
    if (sti_forks_outstanding(scope->thread) == scope->forks)
        return;
    struct sti_forks *forks = atomic_load_explicit(&scope->thread->forks, memory_order_relaxed);
    scope->masks++;
    forks->settle(forks, way != NULL ? forks->not_left(forks, scope->forks, way) : scope->forks);
    scope->masks--;
}
