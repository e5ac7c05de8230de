/* SPDX-License-Identifier: MIT
 *
 * What the trace of the process does at start and around a fork(2). */
#ifndef STI_ALLOC_OBSERVE_TRACE_H
#define STI_ALLOC_OBSERVE_TRACE_H

/* At start: STINT_TRACE. */
void sti_trace_ask_environment(void);

/* In the child of a fork(2). */
void sti_trace_in_child(void);

#endif
