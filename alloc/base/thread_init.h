/* SPDX-License-Identifier: MIT
 *
 * Code that makes a thread's variables at their first use there. A C++ thread_local with a constructor, at namespace
 * scope, has a byte beside it that is set before the constructor runs: whoever leaves the constructor by a jump leaves
 * a variable that is never made on this thread. So it is with what C code does for itself by a flag of _Thread_local
 * storage. So an interrupt waits while such code is on the stack.
 *
 * No table tells where that is, and the compiler often makes it part of the function that uses the variable. So the
 * function's instructions are read: what can only be reached by way of the one that sets a byte of thread-local storage
 * to 1, which the function tests and never writes otherwise, is such code. On x86-64; elsewhere nothing is known. Takes
 * no lock, allocates nothing. Thread whose stack it is; signal handlers, too. */
#ifndef STI_ALLOC_BASE_THREAD_INIT_H
#define STI_ALLOC_BASE_THREAD_INIT_H

#include <stdbool.h>
#include <stdint.h>

/* Is the instruction of a frame on the calling thread's stack in such code? Some 10 nanoseconds when it has been asked
 * before, or the module has no thread-local variables. */
bool sti_thread_init_contains(uintptr_t instruction);

#endif
