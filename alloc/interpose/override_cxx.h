/* SPDX-License-Identifier: MIT
 *
 * The end of the process, as C++ has it: our std::terminate, and our handler of it in each runtime, which an exception
 * that was thrown may have called in its place. Any thread. */
#ifndef STI_ALLOC_INTERPOSE_OVERRIDE_CXX_H
#define STI_ALLOC_INTERPOSE_OVERRIDE_CXX_H

#include "alloc/platform/hooks.h"

/* Our handler, which calls the program's unless an interrupt is what the code would end for. */
void sti_terminated(void);

/* The handler that a runtime began with: the program's until it sets one. */
void sti_terminate_note(sti_terminate_fn *before);

#endif
