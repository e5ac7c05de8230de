/* SPDX-License-Identifier: MIT
 *
 * Walking the frames of code that a signal has stopped, by its handler: may they be left, and which are they? Any
 * thread. */
#ifndef STI_ALLOC_BASE_STOPPED_H
#define STI_ALLOC_BASE_STOPPED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "callstack.h"

/* --- May all frames be left between where a thread was stopped, and a scope of it? The rules are caller.h's: not where
 * a frame of a protected module lies between, or one that cannot be walked. Safe in the handler of the signal that has
 * stopped the thread; allocates nothing and takes no lock.
 *
 * Nobody who walks here knows how deep the stack is: the code is stopped because it has none left. So what a walk finds
 * out about an address it remembers, for as long as it lasts: in a recursion the same few come again and again. A frame
 * takes some 9 nanoseconds then, of a deep stack, in place of the 400 of libgcc's walk. Where a frame has no simple
 * rule, as a lazily bound call has none before its function is found, that one is taken all the same, up to a number of
 * frames that takes it some 10 milliseconds. */

struct sti_stopped {
    struct sti_registers at; /* where it was stopped */
    uintptr_t lowest;        /* of the stack, what may be read */
    uintptr_t scope;         /* frames below this address are the scope's */
};

/* past_libc: leave frames of libc's, too, where the code has called a function there that holds nothing, whether it
 * calls back or not (qsort and snprintf are such). */
bool sti_stopped_may_be_left(const struct sti_stopped *stopped, bool past_libc);

/* Where on the stack the address lies that is returned to when the innermost frame is left which is nobody's: code of
 * the task's, and of libraries, that has called what was stopped. 0: what was stopped is that itself, or there is none
 * that can be found, or it was the loader, which goes on with another function. */
uintptr_t sti_stopped_return(const struct sti_stopped *stopped);

/* Whether it was stopped in no code that is protected (caller.h), or in a function of libc's that only looks at memory
 * or copies it (memcmp, strlen), called by no such code: it has nothing, so it can be left at any instruction as if it
 * were its caller. What libc or this library calls it for is half done. */
bool sti_stopped_in_own_code(const struct sti_stopped *stopped);

/* Find these functions. Before the first of the others; not in a signal handler. */
void sti_stopped_prepare(void);

/* --- Its callstack. Any thread, without what the others need. --- */

/* Fill in at most depth frames, the innermost first, and say how many: frames[0] is where the code was, the others are
 * return addresses; tops[i] is where the i-th frame ends on the stack.
 *
 * The thread may be anywhere: in libc, in an unwinder, in this library. So this takes no lock, allocates nothing and
 * calls no unwinder. It goes by the call frame tables alone (callstack.h), and where a frame has no rule of the usual
 * forms, as a signal's, the callstack ends. That bounds its time, too: half a
 * microsecond a frame. It reads nothing but the stack, up to its end where that is known (0: it is not), and otherwise
 * by a system call that finds out what can be read: so whatever it takes for a frame, it makes no fault. */
size_t sti_stopped_callstack(struct sti_registers at, uintptr_t stack_end, void **frames, uintptr_t *tops,
                             size_t depth);

/* Read a word that may not be readable. False: it is not. Changes errno. */
bool sti_stopped_word(uintptr_t address, uintptr_t *word);

#endif
