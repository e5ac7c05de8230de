/* SPDX-License-Identifier: MIT
 *
 * Leaving a task's frames by unwinding them, so that their cleanups run, and reading from a frame's exception table
 * what it does then, and from a call what it throws. */
#ifndef STI_ALLOC_INTERRUPT_UNWIND_H
#define STI_ALLOC_INTERRUPT_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unwind.h>

#include "alloc/base/scope_state.h"

/* --- STINT_UNWIND: leaving the task's code frame by frame, so that destructors and cleanup attributes run. Thread of
 * the scope only, and never in a signal handler.
 *
 * It is a forced unwind: each frame between here and the scope runs its destructors, its cleanups and its catch (...)
 * blocks, which must throw again; blocks that catch a type are passed by. All of that runs masked. When a frame's own
 * are done, its guards run, while the frame is still there; so a guard that is popped by a destructor runs in its place
 * among the others, and one that nobody pops runs after its frame's destructors. At the scope the unwind ends in the
 * same jump as STINT_JUMP.
 *
 * Where it cannot go on. A noexcept function, a destructor, a call of what cannot throw: there the language would end
 * the process. So before it starts, the interrupt waits as long as there is such a frame in its way, each time for 1
 * KiB of the grace; the code is likely to come to a better place. When the grace is spent it starts all the same, and
 * in front of that frame it turns into a jump: the remaining guards run, the remaining destructors do not. The same
 * happens when the code calls std::terminate meanwhile, or a destructor uses up what is left of the grace. */

struct sti_scope;

/* Does every frame between here and the scope let an exception through? *frames: so many were looked at. */
bool sti_unwind_is_open(const struct sti_scope *scope, size_t *frames);

/* Whether a forced unwind is one of these; others end their thread. */
bool sti_unwind_is_ours(_Unwind_Exception_Class class);

/* Leave the scope's code and land in the call that opened it. Does not return, unless a catch block keeps the
 * exception: then the code goes on behind that block, and the interrupt is as due as before. */
_Noreturn void sti_unwind_leave(struct sti_scope *scope);

/* In code that an unwind of the innermost scope runs: land at once, if nothing is held here. Otherwise return. */
void sti_unwind_give_up(struct sti_scope *scope);

/* Would an exception thrown here meet, before any handler, a frame at which the process ends? */
bool sti_unwind_throwing_would_end(const struct sti_scope *scope);

/* End the scope from here, where nothing is held and no exception may be thrown: unwind as far as that goes, or
 * jump. */
_Noreturn void sti_unwind_cut(struct sti_scope *scope);

/* Land where the code was about to end the process, at the call that returns to caller (NULL: not known), if an
 * interrupt is what it was about to end for. */
void sti_unwind_instead_of_terminating(const void *caller);

/* --- A frame's exception table (LSDA, of the Itanium C++ ABI): what would the frame do with an exception? Any
 * thread. */

struct _Unwind_Context;

enum sti_lsda_answer {
    STI_LSDA_PASSES,  /* it goes on, after destructors maybe */
    STI_LSDA_CATCHES, /* a block catches std::bad_alloc, or anything */

    /* Where this frame stands now its compiler has counted on no exception, and its language would end the process. So
     * says gcc of a noexcept function, of a destructor, and of a call of what cannot throw, such as malloc. clang's
     * noexcept functions and destructors catch everything and then call std::terminate: those that do so before
     * anything else (landing_pad.h) are meant as well. */
    STI_LSDA_ENDS,
};
/* Of a std::bad_alloc that is thrown. */
enum sti_lsda_answer sti_lsda_answer(struct _Unwind_Context *context);

/* Whether a forced unwind may go on: it passes by the blocks that catch a type. The caller of this library may have
 * called what its compiler knows to throw nothing (below): then what the table says is not meant for it. */
bool sti_lsda_lets_pass(struct _Unwind_Context *context, bool is_caller);

/* --- Which calls a compiler counts on to throw nothing, read from the instruction that calls. C++ headers say so of
 * malloc and its like, and an exception's table then says nothing of such a call: where the calls before and behind it
 * have one landing pad, or there is none behind it, its instruction lies in their range, though what they clean up is
 * gone by then, or is not made yet. So an interrupt that comes in malloc must not go that way.
 *
 * Known of a call of the function itself and of one by a table of the linker's (call *entry(%rip) of -fno-plt, too);
 * not of one by a register, as where a loop holds malloc's address there. Takes no lock, allocates nothing. Any
 * thread. */

/* Does the code that goes on at behind, in a caller of this library's, call such a function of it? */
bool sti_plain_call_returns_to(uintptr_t behind);

#endif
