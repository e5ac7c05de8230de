/* SPDX-License-Identifier: MIT
 *
 * Faults: the handler that hears when a thread has used up its stack (stack.h). All others go to the handler that was
 * there before. */
#ifndef STI_ALLOC_INTERRUPT_FAULT_H
#define STI_ALLOC_INTERRUPT_FAULT_H

#include <signal.h>
#include <stdbool.h>

/* Have it in place. Any thread; false: it could not be. */
bool sti_fault_handler_install(void);

/* What is to get the faults that are not ours (NULL: only ask for it): it takes its place behind our handler, as a
 * program's does. False: ours is not in place, and nothing was done. Any thread, signal handlers too. */
bool sti_fault_set_action(const struct sigaction *action, struct sigaction *before);

/* The calling thread's stack is spent, and what its interrupt waited for has ended: it is asked again as soon as this
 * library returns. */
void sti_fault_ask_at_return(void);

#endif
