/* SPDX-License-Identifier: MIT
 *
 * Walking the frames of code that a signal has stopped, from a handler on another stack. */
#ifndef STI_ALLOC_BASE_STOPPED_H
#define STI_ALLOC_BASE_STOPPED_H

#include <stdbool.h>
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

/* Find these functions. Before the first of the former; not in a signal handler. */
void sti_stopped_prepare(void);

#endif
