/* SPDX-License-Identifier: MIT
 *
 * What the event loops of this folder have in common: a line of standard input, or of a pipe or a socket in a server,
 * asks how many primes there are below a number; that is a task with a budget of its own, and its end comes through a
 * completion queue. Nothing here blocks, but for the reading of a plain file. The loop's thread. */
#ifndef LOOPS_PRIMES_H
#define LOOPS_PRIMES_H

#include <stint/stint.h>

struct primes {
    stint_pool *pool;
    stint_completions *completions;
    unsigned outstanding; /* requests that have not been answered */
    bool open;            /* there may be more of them */
};

/* 0, or an errno value. */
int primes_open(struct primes *primes);
void primes_close(struct primes *primes);

/* Standard input is readable. open is false when it has ended. */
void primes_begin(struct primes *primes);

/* The completions' descriptor is readable. */
void primes_end(struct primes *primes);

/* Whether the loop has to go on. */
bool primes_go_on(const struct primes *primes);

#endif
