/* SPDX-License-Identifier: MIT
 *
 * What the task's code holds; see hold.h. Thread of the scope only. */
#include "hold.h"

#include <stddef.h>
#include <stdint.h>

#include "scope_state.h"

static bool forget(struct sti_holds *holds, const volatile void *object)
{
    for (unsigned i = holds->named; i-- > 0;) {
        if (holds->objects[i] == object) {
            holds->objects[i] = holds->objects[--holds->named];
            return true;
        }
    }
    return false;
}

void sti_hold_release_other(struct sti_scope *innermost, const volatile void *object)
{
    for (struct sti_scope *scope = innermost; scope != NULL; scope = scope->below) {
        if (forget(&scope->holds, object))
            return;
    }
    for (struct sti_scope *scope = innermost; scope != NULL; scope = scope->below) {
        if (scope->holds.unnamed > 0) {
            scope->holds.unnamed--;
            return;
        }
    }
}

void sti_hold_forget_catches(struct sti_holds *holds)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < holds->named; i++) {
        if (((uintptr_t)holds->objects[i] & STI_HOLD_KINDS) != STI_HOLD_CATCH)
            holds->objects[kept++] = holds->objects[i];
    }
    holds->named = kept;
}

void sti_hold_hand_down(struct sti_scope *scope)
{
    if (scope->below == NULL)
        return;
    for (unsigned i = 0; i < scope->holds.named; i++)
        sti_hold_take(&scope->below->holds, scope->holds.objects[i]);
    scope->below->holds.unnamed += scope->holds.unnamed;
}
