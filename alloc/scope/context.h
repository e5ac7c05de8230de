/* SPDX-License-Identifier: MIT
 *
 * What a task sees of itself: its context; and suspending its scopes. Calling thread only, unless a function says
 * otherwise. */
#ifndef STI_ALLOC_SCOPE_CONTEXT_H
#define STI_ALLOC_SCOPE_CONTEXT_H

#include <stint/context.h>

#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"
#include "scope.h"

/* --- The context of a scope, for who starts another in it. Thread of the scope. --- */

/* Its own, or that of the scopes around it: a detached scope lies on top of one that has nothing to do with it. NULL:
 * none. */
static inline stint_context *sti_context_of(const struct sti_scope *scope)
{
    while (scope != NULL && scope->request->options->context == NULL)
        scope = scope->outer;
    return scope != NULL ? scope->request->options->context : NULL;
}

/* --- Suspended scopes: for a while the thread is as if in no scope at all. What it allocates comes from the process's heap and
 * is charged to nobody, nothing is a sample point, and scopes that it opens are nobody's inner ones. For the executor,
 * which calls the application's code in a task's midst that is not the task's. Calling thread only. */

struct sti_suspended_scope {
    struct sti_thread *thread; /* NULL: it was in no scope */
    struct sti_scope *scope;
    sti_backend_theap *allocating;
    size_t small;
    uint64_t started;
};

void sti_scope_suspend(struct sti_suspended_scope *suspended);
void sti_scope_resume(const struct sti_suspended_scope *suspended);

#endif
