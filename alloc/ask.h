/* SPDX-License-Identifier: MIT
 *
 * Asking a thread what it is doing: a signal (SIGRTMAX - 3) has it write down its callstack and what defers its interrupts.
 * It does so wherever it is, also in code that never comes to a sample point, and goes on. System calls that a signal ends
 * whatever it is (poll, nanosleep and their like) return EINTR; others are restarted.
 *
 *   asker    question = a number it has not used before (release); sends the signal
 *   thread   in the handler: answered = 0; writes; answered = question (release)
 *   asker    answered (acquire) is its number: reads; answered is still its number: what it read is whole
 *
 * Any thread may ask, one at a time; which thread answers is said at each function. */
#ifndef STI_ALLOC_ASK_H
#define STI_ALLOC_ASK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stint/interrupt.h>

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

#endif
