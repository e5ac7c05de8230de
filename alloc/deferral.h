/* SPDX-License-Identifier: MIT
 *
 * What an interrupt has to wait for, told to those who ask: the rules are rules.h's and interrupt.c's. */
#ifndef STI_ALLOC_DEFERRAL_H
#define STI_ALLOC_DEFERRAL_H

#include <stdint.h>
#include <stint/interrupt.h>

struct sti_scope;
struct sti_thread;

/* What would defer an interrupt of the scope, or of one around it that is tripped, at this moment, but for frames on the
 * stack: STINT_DEFERRAL_NONE, then. Thread of the scope only; also in a signal handler that found it in code of its own. */
stint_deferral sti_deferral_of(const struct sti_scope *innermost);

/* An interrupt of the thread's scope could not be delivered: note why, for whoever asks. Thread of the scope only. */
void sti_deferral_note(struct sti_thread *thread);

/* What was noted last in the task that the thread runs. Any thread. */
stint_deferral sti_deferral_noted(const struct sti_thread *thread);

#endif
