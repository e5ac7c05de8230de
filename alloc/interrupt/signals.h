/* SPDX-License-Identifier: MIT
 *
 * The signals that this library sends to a thread: one preempts a task that makes no sample points, one asks a thread
 * what it is doing. A child process gets neither. And the one that a thread gets by itself when its stack is spent.
 * Which thread may call is said at each function. */
#ifndef STI_ALLOC_INTERRUPT_SIGNALS_H
#define STI_ALLOC_INTERRUPT_SIGNALS_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stint/interrupt.h>
#include <sys/select.h> /* sigset_t */

/* --- Preemption: interrupting code that makes no sample points, by a signal. The one room that knows signals; but for
 * the opening and closing, called from the watch thread. */

struct sti_thread;

/* Let the signal through on the calling thread, from now to the matching close; *was_blocked is handed to that. 0 or an
 * errno value. */
int sti_preempt_open(struct sti_thread *thread, bool *was_blocked);
void sti_preempt_close(bool was_blocked);

/* How the set has to hold the signal so that the scope, which was opened with that, ends with what was before it. */
void sti_preempt_leave_as_before(sigset_t *set, bool was_blocked);

/* Ask the thread, which is in a preemptible scope that is being watched, unless it has not heard the last time yet. */
void sti_preempt_send(struct sti_thread *thread);

/* --- Asking a thread what it is doing: a signal (SIGRTMAX - 3) has it write down its callstack and what defers its
 * interrupts. It does so wherever it is, also in code that never comes to a sample point, and goes on. System calls
 * that a signal ends whatever it is (poll, nanosleep and their like) return EINTR; others are restarted.
 *
 *   asker    question = a number it has not used before (release); sends the signal
 *   thread   in the handler: answered = 0; writes; answered = question (release)
 *   asker    answered (acquire) is its number: reads; answered is still its number: what it read is whole
 *
 * Any thread may ask, one at a time; which thread answers is said at each function. */

#define STI_ASK_DEPTH 48

struct sti_ask {
    atomic_uint question; /* 0: none */
    atomic_uint answered;
    int id; /* the kernel's, of the thread */
    atomic_int deferral;
    atomic_size_t depth;
    void *_Atomic frames[STI_ASK_DEPTH]; /* return addresses, the innermost first */
};

/* The calling thread answers from now on, and no more. 0 or an errno value. */
int sti_ask_begin(struct sti_ask *ask);
void sti_ask_end(void);

/* The thread goes on with something else: a question that it has not heard yet is not for that. */
void sti_ask_drop(struct sti_ask *ask);

/* Ask. Returns the question's number; 0: the thread is gone. */
unsigned sti_ask_send(struct sti_ask *ask);

struct sti_answer {
    stint_deferral deferral;
    size_t depth;
    void *frames[STI_ASK_DEPTH];
};

/* Whether that question has been answered; then what. */
bool sti_ask_read(struct sti_ask *ask, unsigned question, struct sti_answer *answer);

/* --- Faults: the handler that hears when a thread has used up its stack (stack.h). All others go to the handler that
 * was there before. */

/* Have it in place. Any thread; false: it could not be. */
bool sti_fault_handler_install(void);

/* The program sets its own (NULL: it only asks): it takes its place behind ours. False: ours is not there. Any thread,
 * signal handlers too. */
bool sti_fault_action(const struct sigaction *action, struct sigaction *before);

/* --- The signal mask of child processes. A thread of a pool has signals blocked so that the application's handlers run
 * on the application's threads. A program that a task starts there, or the child of its fork(2), is to have those that
 * the thread had blocked which made the pool, or nobody could end it. */

/* Of the calling thread: what is blocked for the library's sake, and what a child has blocked instead. Both stay as
 * long as the thread. */
struct sti_child_masks {
    sigset_t own;
    sigset_t child;
};
void sti_child_set_masks(const struct sti_child_masks *masks);

/* What a child has blocked whose parent, the calling thread, has this, or asks for this. */
const sigset_t *sti_child_mask(const sigset_t *mask);

#endif
