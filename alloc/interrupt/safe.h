/* SPDX-License-Identifier: MIT
 *
 * May the code of a task be left here? The one place that answers. Thread of the scope only; also in the handler of a
 * signal that has stopped it. */
#ifndef STI_ALLOC_INTERRUPT_SAFE_H
#define STI_ALLOC_INTERRUPT_SAFE_H

#include <stdbool.h>
#include <stint/interrupt.h>

#include "alloc/platform/caller.h"
#include "alloc/platform/callstack.h"
#include "alloc/platform/scope_state.h"

/* What an interrupt of the innermost scope, or of a tripped one around it, has to wait for now; STINT_DEFERRAL_NONE:
 * nothing, so that all frames between here and the innermost scope may be left.
 *
 * What is cheap is asked first: masks, what is held, exceptions that are caught or on their way. Then the frames are
 * walked, from here to the scope. One of them blocks if its module is not on the list of those that may be left in this
 * way (caller.h), if nothing describes it, or if the walk does not arrive.
 *
 * stopped: where a signal or a fault has stopped the code, in whose handler this is. Then the instruction itself has to
 * lie in code that may be left, or in a function of libc's that only looks at memory or copies it; no lock is taken,
 * and nothing is allocated. NULL: the code has come here by itself, and the way is the scope's (a jump, or an unwind).
 *
 * Whether a STINT_FAIL task is to be left at all is the caller's to know. */
stint_deferral sti_verdict(const struct sti_scope *innermost, const struct sti_registers *stopped);

/* The same where the stack has come to its end, which has stopped the code. */
stint_deferral sti_verdict_at_stack_end(const struct sti_scope *innermost, const struct sti_registers *stopped);

/* How the frames would be left: by what the scope asks for, or from where a signal has stopped them. */
static inline enum sti_left sti_verdict_way(const struct sti_scope *scope, const struct sti_registers *stopped)
{
    if (stopped != NULL)
        return STI_LEFT_STOPPED;
    return scope->on_interrupt == STINT_UNWIND ? STI_LEFT_BY_UNWIND : STI_LEFT_BY_JUMP;
}

/* Whether a signal has stopped the scope's code where nothing of this library's, libc's or another's that may not be
 * left is half done: at its own instruction, or in one of libc's functions that only look at memory or copy it. */
bool sti_verdict_is_own_code(const struct sti_scope *innermost, const struct sti_registers *stopped);

/* The frames alone. */
bool sti_frames_may_be_left(const struct sti_scope *innermost);

/* The same where the process would end otherwise: those of the C++ runtime do not count, as that counts on an exception
 * wherever it allocates. */
bool sti_frames_may_be_cut(const struct sti_scope *innermost);

/* Find those functions of libc's. Before the first question about code that has been stopped; not in a handler. */
void sti_verdict_prepare(void);

/* At start: what the variable STINT_ALLOW names. */
void sti_verdict_ask_environment(void);

#endif
