/* SPDX-License-Identifier: MIT
 *
 * Leaving a task's frames by unwinding them, so that their cleanups run. Thread of the scope only, and never in a
 * signal handler. */
#ifndef STI_ALLOC_INTERRUPT_UNWIND_H
#define STI_ALLOC_INTERRUPT_UNWIND_H

#include <stdbool.h>

#include "alloc/platform/scope_state.h"

/* --- STINT_UNWIND: leaving the task's code frame by frame, so that destructors and cleanup attributes run.
 *
 * It is a forced unwind: each frame between here and the scope runs its destructors, its cleanups and its catch (...)
 * blocks, which must throw again; blocks that catch a type are passed by. All of that runs masked. When a frame's own
 * are done, its guards run, while the frame is still there; so a guard that is popped by a destructor runs in its place
 * among the others, and one that nobody pops runs after its frame's destructors. At the scope the unwind ends in the
 * same jump as STINT_JUMP.
 *
 * Where it cannot go on. Destructors run outwards up to the first frame that lets no exception through: a noexcept
 * function, a destructor, a frame of another language. From there it is a jump: the remaining guards run, the remaining
 * destructors do not. The same happens when the code calls std::terminate meanwhile, or a destructor uses up what is
 * left of the grace.
 *
 * Where it cannot begin. C++ headers say of malloc and its like that they throw nothing, and then an exception's table
 * says nothing of such a call, nor of a call of a function that calls nothing else; or it says what was meant for the
 * calls around it, and an object is destroyed twice. So an interrupt that comes in malloc waits for a better place, for
 * 1 KiB of the grace each time: as long as the first frame with a table is in the module that called malloc, where the
 * compiler may have known. When the grace is exhausted it is a jump. In a library of C, under a program in C++, an
 * unwind begins at once. */

/* Leave the scope's code and resume in the call that opened it. Does not return, unless a catch block keeps the
 * exception: then the code goes on behind that block, and the interrupt is as due as before. */
_Noreturn void sti_unwind_leave(struct sti_scope *scope);

/* In code that an unwind of the innermost scope runs: jump at once, if nothing is held here. Otherwise return. */
void sti_unwind_give_up(struct sti_scope *scope);

/* nothrow_call: where the code goes on that has called what throws nothing; NULL: it has called something else. */
bool sti_unwind_may_begin(const struct sti_scope *scope, const void *nothrow_call);

/* operator new of a task that is refused memory is about to throw. */
void sti_unwind_note_throw(struct sti_scope *scope);

/* The code is about to end the process, by a call that returns to caller. If an interrupt is what it does that for, and
 * nothing is held but exceptions, jump; otherwise return. */
void sti_unwind_instead_of_terminating(const void *caller);

/* An exception has come to the innermost scope's boundary: the frames inside have been unwound, and those outside stay,
 * so it does not matter what is masked or held. If an interrupt is what it was thrown for, jump; otherwise return. */
void sti_unwind_at_boundary(void);

#endif
