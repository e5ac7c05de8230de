/* SPDX-License-Identifier: MIT
 *
 * Which calls a compiler counts on to throw nothing, read from the instruction that calls. C++ headers say so of malloc
 * and its like, and an exception's table then says nothing of such a call: where the calls before and behind it have
 * one landing pad, or there is none behind it, its instruction lies in their range, though what they clean up is gone
 * by then, or is not made yet. So an interrupt that comes in malloc must not go that way.
 *
 * Known of a call of the function itself and of one by a table of the linker's (call *entry(%rip) of -fno-plt, too);
 * not of one by a register, as where a loop holds malloc's address there. Takes no lock, allocates nothing. Any
 * thread. */
#ifndef STI_ALLOC_INTERRUPT_PLAIN_CALL_H
#define STI_ALLOC_INTERRUPT_PLAIN_CALL_H

#include <stdbool.h>
#include <stdint.h>

/* Does the code that goes on at behind, in a caller of this library's, call such a function of it? */
bool sti_plain_call_returns_to(uintptr_t behind);

#endif
