/* SPDX-License-Identifier: MIT
 *
 * The callstack of code that a signal has interrupted; by the signal's handler, on any thread. */
#ifndef STI_ALLOC_BASE_INTERRUPTED_H
#define STI_ALLOC_BASE_INTERRUPTED_H

#include <stddef.h>
#include <stdint.h>

/* Where it was, and what its stack pointer and frame pointer were. */
struct sti_interrupted {
    uintptr_t ip;
    uintptr_t sp;
    uintptr_t bp;
};

/* Fill in at most depth frames, the innermost first, and say how many: frames[0] is where the code was, the others are
 * return addresses; tops[i] is where the i-th frame ends on the stack.
 *
 * The thread may be anywhere: in libc, in an unwinder, in this library. So this takes no lock, allocates nothing and
 * calls no unwinder. It goes by the call frame tables alone (callstack.h), and where a frame has no rule of the usual
 * forms, as a signal's, the callstack ends. That bounds its time, too: half a microsecond
 * a frame. It reads nothing but the stack, up to its end where that is known (0: it is not), and otherwise by a system
 * call that finds out what can be read: so whatever it takes for a frame, it makes no fault. */
size_t sti_interrupted_callstack(struct sti_interrupted at, uintptr_t stack_end, void **frames, uintptr_t *tops,
                                 size_t depth);

#endif
