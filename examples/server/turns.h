/* SPDX-License-Identifier: MIT
 *
 * Turns: of the queries that have run for some milliseconds already, no more compute at once than there are processors,
 * each for ten milliseconds. The others sleep. So a short query finds the processors with a few long ones on them,
 * however many of those there are: the two levels of a multilevel feedback queue (Corbató, CTSS, 1962). They go in
 * rounds, in each of which each account has one turn (Nagle, RFC 970, 1985): who has many queries gets no more than who
 * has one. Only what comes back to SQLite's machine takes turns; a single function that computes for long does not.
 *
 * The functions but turns_open are called by the thread that runs the query, in its task or outside of one. */
#ifndef SERVER_TURNS_H
#define SERVER_TURNS_H

#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>

enum turn_state { TURN_NONE, TURN_AWAITED, TURN_HELD };

struct turn {
    struct turn *next;
    atomic_int state; /* turn_state; written with the lock of turns.c */
    const void *account;
    uint64_t round; /* for which it waits, or in which it was held last */
    uint64_t began; /* by the clock of the thread, at its first look; 0: before that */
    uint64_t since; /* it is held */
    sem_t wake;
};

/* Before the first query: so many may be held at once. */
void turns_open(unsigned count);

/* Queries that wait for one. Any thread. */
unsigned turns_awaited(void);

/* account: whose it is; it is only compared. */
void turn_begin(struct turn *turn, const void *account);

/* Now and then while it computes. Where its time is over, or comes only later, it sleeps until then, in a blocking
 * region. May be where the task is interrupted. */
void turn_take(struct turn *turn);

/* Gives the turn back, or waits no more: before it sleeps for another reason, and at its end. A stint_guard_fn. */
void turn_leave(void *turn);

#endif
