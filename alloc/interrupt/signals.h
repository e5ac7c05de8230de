/* SPDX-License-Identifier: MIT
 *
 * The signal that this library sends to a thread: it preempts a task that makes no sample points. A child process does
 * not get it. (The one that a thread gets by itself at the end of its stack is stack.h's.) Which thread may call is
 * said at each function. */
#ifndef STI_ALLOC_INTERRUPT_SIGNALS_H
#define STI_ALLOC_INTERRUPT_SIGNALS_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/select.h> /* sigset_t */
#include <ucontext.h>

/* --- Preemption: interrupting code that makes no sample points, by a signal. The one room that knows signals. */

struct sti_scope;
struct sti_thread;

/* Let the signal through on the calling thread, from now to the matching close; *was_blocked is handed to that. 0 or an
 * errno value. */
int sti_preempt_open(struct sti_thread *thread, bool *was_blocked);
void sti_preempt_close(bool was_blocked);

/* How the set has to hold the signal so that the scope, which was opened with that, ends with what was before it. */
void sti_preempt_leave_as_before(sigset_t *set, bool was_blocked);

/* Ask the thread, which is in a preemptible scope that is being watched, unless it has not heard the last time yet.
 * False: the system has sent no signal. With the watch's lock, also in a signal handler. */
bool sti_preempt_send(struct sti_thread *thread);

/* For the watch, by sti_clock_now: the next signal is to be sent at this time, where that has not passed yet. */
uint64_t sti_preempt_next(const struct sti_thread *thread);
#define STI_ASK_AGAIN_NS UINT64_C(250000)

/* --- The signal mask of child processes. A thread of a pool has signals blocked so that the application's handlers run
 * on the application's threads. A program that a task starts there, or the child of its fork(2), is to have those that
 * the thread had blocked which made the pool, or nobody could end it. */

/* Of the calling thread: what is blocked for the library's sake, as the system tells it, and what a child has blocked
 * instead. Both stay as long as the thread. */
struct sti_child_masks {
    sigset_t own;
    sigset_t child;
};
void sti_child_set_masks(const struct sti_child_masks *masks);

/* What a child has blocked whose parent, the calling thread, has this, or asks for this. */
const sigset_t *sti_child_mask(const sigset_t *mask);

/* In the child of a fork(2). */
void sti_signals_in_child(void);

#endif
