/* SPDX-License-Identifier: MIT
 *
 * Preemption: interrupting code that makes no sample points, by a signal. The one room that knows signals; but for the
 * opening and closing, called from the watch thread. */
#ifndef STI_ALLOC_PREEMPT_H
#define STI_ALLOC_PREEMPT_H

#include <signal.h>
#include <stdbool.h>

struct sti_thread;

/* Let the signal through on the calling thread, from now to the matching close; *was_blocked is handed to that. 0 or an
 * errno value. */
int sti_preempt_open(struct sti_thread *thread, bool *was_blocked);
void sti_preempt_close(bool was_blocked);

/* How the set has to hold the signal so that the scope, which was opened with that, ends with what was before it. */
void sti_preempt_leave_as_before(sigset_t *set, bool was_blocked);

/* Ask the thread, which is in a preemptible scope that is being watched, unless it has not heard the last time yet. */
void sti_preempt_send(struct sti_thread *thread);

#endif
