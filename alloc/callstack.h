/* SPDX-License-Identifier: MIT
 *
 * Callstacks, taken at any allocation: in libc's own, in the loader's, on any stack, with any lock held. Takes no lock and
 * allocates nothing. Any thread.
 *
 * Debian's code has no frame pointers, and where there are none, what looks like one is any number. So each return address
 * is looked up in the call frame tables that every module has for exceptions. To read them takes 0.1 to 0.5 µs a frame,
 * far too long; but at one address the rule is always the same, and nearly always of one form: the frame above begins at
 * the stack pointer (or at the frame pointer) plus a number. Such a rule fits in a word, and a cache of them makes a frame
 * cost a few nanoseconds. Where a frame has no such rule (a signal's), the whole stack is unwound by libgcc. */
#ifndef STI_ALLOC_CALLSTACK_H
#define STI_ALLOC_CALLSTACK_H

#include <stddef.h>

/* Fill in at most depth return addresses, the innermost first, and say how many. caller is the first: frames below it
 * are this library's. */
size_t sti_callstack(void **frames, size_t depth, const void *caller);

#endif
