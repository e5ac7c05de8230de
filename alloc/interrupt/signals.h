/* SPDX-License-Identifier: MIT
 *
 * The signals that this library sends to a thread: one preempts a task that makes no sample points, one asks a thread
 * what it is doing. A child process gets neither. (The one that a thread gets by itself when its stack is spent is
 * fault.h's.) Which thread may call is said at each function. */
#ifndef STI_ALLOC_INTERRUPT_SIGNALS_H
#define STI_ALLOC_INTERRUPT_SIGNALS_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stint/interrupt.h>
#include <sys/select.h> /* sigset_t */
#include <ucontext.h>

/* --- Preemption: interrupting code that makes no sample points, by a signal. The one room that knows signals; but for
 * the opening and closing, called from the watch thread. */

struct sti_scope;
struct sti_registers;
struct sti_thread;

/* Where a signal has stopped the thread. In a handler. */
struct sti_registers sti_signal_stopped_at(const greg_t *registers);

/* Let the signal through on the calling thread, from now to the matching close; *was_blocked is handed to that. 0 or an
 * errno value. */
int sti_preempt_open(struct sti_thread *thread, bool *was_blocked);
void sti_preempt_close(bool was_blocked);

/* How the set has to hold the signal so that the scope, which was opened with that, ends with what was before it. */
void sti_preempt_leave_as_before(sigset_t *set, bool was_blocked);

/* Ask the thread, which is in a preemptible scope that is being watched, unless it has not heard the last time yet. */
void sti_preempt_send(struct sti_thread *thread);

/* --- Asking a thread what it is doing: a signal (SIGRTMAX - 3) has it write down its callstack, which tasks that is
 * of, and, where somebody wants to know, what defers its interrupts. It does so wherever it is, also in code that never
 * comes to a sample point, and goes on. System calls that a signal ends whatever it is (poll, nanosleep and their like)
 * return EINTR; others are restarted.
 *
 *   asker    question = a number that is larger than all before, unless a larger one is there (release); sends the
 *            signal
 *   thread   in the handler: answered = 0; writes; answered = question (release)
 *   asker    answered (acquire) is its number or a larger one: reads; answered is still the same: what it read is whole
 *
 * An answer to a later question is as good: it is of a later moment. So any threads may ask, at once too; which thread
 * answers is said at each function. Whether the answer is about the task that was meant, its asker has to see. */

#define STI_ASK_DEPTH 64
#define STI_ASK_TASKS 8

/* A task on a thread's stack, whose frames are those up to this address that are no inner one's. */
struct sti_ask_task {
    const void *task; /* NULL: somebody else's; nobody will ask for it */
    uintptr_t top;
};

/* On the thread, in its handler: fill in at most so many, the innermost first, and say how many. */
typedef size_t sti_ask_list(struct sti_ask_task *tasks, size_t max);

struct sti_ask {
    atomic_uint question; /* 0: none */
    atomic_uint answered;
    atomic_uint deferral_wanted; /* by so many askers */
    int id;                      /* the kernel's, of the thread; 0: it does not answer */
    uintptr_t stack;             /* this and the next one: of the thread; 0: not known */
    uintptr_t stack_end;
    sti_ask_list *list;
    atomic_int deferral;
    atomic_size_t depth;
    atomic_size_t task_count;
    atomic_bool is_elsewhere; /* not on the thread's own stack, so that no frame can be said to be a task's */
    void *_Atomic frames[STI_ASK_DEPTH];
    atomic_uintptr_t tops[STI_ASK_DEPTH];
    const void *_Atomic tasks[STI_ASK_TASKS];
    atomic_uintptr_t task_tops[STI_ASK_TASKS];
};

/* The calling thread, whose stack and list are filled in, answers from now on, and no more. 0 or an errno value. */
int sti_ask_begin(struct sti_ask *ask);
void sti_ask_end(void);

/* Whether what defers an interrupt is to be a part of answers, which takes a walk of the stack as long as that is. One
 * for each asker that wants it, until it has its answer. */
void sti_ask_want_deferral(struct sti_ask *ask, bool wanted);

/* Ask. Returns the question's number; 0: the thread is gone. */
unsigned sti_ask_send(struct sti_ask *ask);

struct sti_answer {
    stint_deferral deferral;
    size_t depth; /* frames: where it is, and then return addresses, the innermost first */
    void *frames[STI_ASK_DEPTH];
    uintptr_t tops[STI_ASK_DEPTH];
    size_t task_count;
    struct sti_ask_task tasks[STI_ASK_TASKS];
    bool is_elsewhere;
};

/* Whether that question has been answered; then what. */
bool sti_ask_read(struct sti_ask *ask, unsigned question, struct sti_answer *answer);

/* Which of the frames are the task's: so many, from *first on. 0: it is not there, or none is. */
size_t sti_answer_frames(const struct sti_answer *answer, const void *task, size_t *first);

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

/* In the child of a fork(2). */
void sti_signals_in_child(void);

#endif
