/* SPDX-License-Identifier: MIT
 *
 * May the code of a task be left here? The one place that answers. Thread of the scope only; also in the handler of a
 * signal that has stopped it. */
#ifndef STI_ALLOC_INTERRUPT_SAFE_H
#define STI_ALLOC_INTERRUPT_SAFE_H

#include <stdbool.h>
#include <stint/interrupt.h>

#include "alloc/base/callstack.h"
#include "alloc/base/scope_state.h"

/* What an interrupt of the innermost scope, or of a tripped one around it, has to wait for now; STINT_DEFERRAL_NONE:
 * nothing, so that all frames between here and the innermost scope may be left.
 *
 * What is cheap is asked first: masks, a callback of this library's, what is held, exceptions that are caught or on
 * their way. Then the frames are walked, from here to the scope. One of them blocks if its module is not on the list of
 * those that may be left in this way (module.h), if nothing describes it, or if the walk does not arrive.
 *
 * stopped: where a signal or a fault has stopped the code, in whose handler this is. Then the instruction itself has to
 * lie in code that may be left, or in a function of libc's that only looks at memory or copies it; no lock is taken,
 * and nothing is allocated. NULL: the code has come here by itself, and the way is the scope's (a jump, or an unwind).
 *
 * Whether a STINT_FAIL task is to be left at all is the caller's to know. */
stint_deferral sti_verdict(struct sti_scope *innermost, const struct sti_registers *stopped);

#endif
