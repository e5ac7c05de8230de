/* SPDX-License-Identifier: MIT
 *
 * The context of a scope, for who starts another in it. Thread of the scope. */
#ifndef STI_ALLOC_CONTEXT_H
#define STI_ALLOC_CONTEXT_H

#include <stint/context.h>

#include "scope.h"
#include "scope_state.h"

/* Its own, or that of the scopes around it: a detached scope lies on top of one that has nothing to do with it. NULL:
 * none. */
static inline stint_context *sti_context_of(const struct sti_scope *scope)
{
    while (scope != NULL && scope->request->options->context == NULL)
        scope = scope->outer;
    return scope != NULL ? scope->request->options->context : NULL;
}

#endif
