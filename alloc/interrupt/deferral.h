/* SPDX-License-Identifier: MIT
 *
 * What an interrupt has to wait for: the rules of what a scope's code may hold (those of frames on its stack are
 * caller.h's), and what is told to those who ask. Thread of the scope only, unless a function says otherwise. */
#ifndef STI_ALLOC_INTERRUPT_DEFERRAL_H
#define STI_ALLOC_INTERRUPT_DEFERRAL_H

#include <stint/interrupt.h>

#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"

/* What the code of this scope alone has masked or holds, settled (hold.h); STINT_DEFERRAL_NONE: as far as that goes it
 * may be left. */
stint_deferral sti_deferral_of_one(const struct sti_scope *scope);

/* What would defer an interrupt of the scope, or of one around it that is tripped, at this moment, but for frames on
 * the stack: STINT_DEFERRAL_NONE, then. Thread of the scope only; also in a signal handler that found it in code of its
 * own. */
stint_deferral sti_deferral_of(const struct sti_scope *innermost);

/* An interrupt of the thread's scope could not be delivered, for this: count that. Thread of the scope only. */
static inline void sti_deferral_count(struct sti_thread *thread, stint_deferral deferral)
{
    thread->scope->deferred++;
    sti_counter_add_own(&thread->deferrals[deferral]);
}

/* The same, and note why, for whoever asks. */
void sti_deferral_note(struct sti_thread *thread);

/* What was noted last in the task that the thread runs. Any thread. */
stint_deferral sti_deferral_noted(const struct sti_thread *thread);

#endif
