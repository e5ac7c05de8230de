/* SPDX-License-Identifier: MIT
 *
 * Faults: the handler that hears when a thread has used up its stack (stack.h). All others go to the handler that was
 * there before. */
#ifndef STI_ALLOC_INTERRUPT_FAULT_H
#define STI_ALLOC_INTERRUPT_FAULT_H

#include <stdbool.h>

/* Have it in place. Any thread; false: it could not be. */
bool sti_fault_handler_install(void);

/* The calling thread's stack is spent, and what its interrupt waited for has ended: it is asked again as soon as this
 * library returns. */
void sti_fault_ask_at_return(void);

#endif
