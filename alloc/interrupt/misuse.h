/* SPDX-License-Identifier: MIT
 *
 * Misuse: what a task's code should have done and has not. It makes the task fail where that can be known for nothing;
 * in debug mode (STINT_DEBUG=1 in the environment, docs/debugging.md) it is told on standard error, too. Any thread. */
#ifndef STI_ALLOC_INTERRUPT_MISUSE_H
#define STI_ALLOC_INTERRUPT_MISUSE_H

#include <stdbool.h>

#include "alloc/base/scope_state.h"

/* Constant from the first constructor on. */
extern bool sti_debug_is_on __attribute__((visibility("hidden")));

/* A line on standard error, in debug mode only; as printf. Allocates nothing; safe in signal handlers but for that. */
void sti_debug_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Say what the task of this scope has done; NULL: the calling thread, which runs none. */
void sti_misuse_note(const struct sti_scope *scope, const char *what);

/* The scope's function has returned: has it left something open? */
static inline bool sti_misuse_is_left(const struct sti_scope *scope)
{
    return scope->guards != NULL || scope->hooks != NULL || scope->masks != scope->finished; /* a keep is a mask, too */
}

/* It has: the error of the task, which is its own code if it has failed anyway. */
int sti_misuse_fail(struct sti_scope *scope, int code);

/* The same of a stolen subtask: all of its task fails. */
int sti_misuse_fail_task(struct sti_scope *branch, int code);

/* Before the scope ends, however it does: what it still holds is told. */
void sti_misuse_look_at_holds(struct sti_scope *scope);

#endif
