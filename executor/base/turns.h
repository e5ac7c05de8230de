/* SPDX-License-Identifier: MIT
 *
 * Turns: which of those that want one comes first. Each has a time, virtual nanoseconds that it has had of the
 * workers by its weight, and the one with the least is next: start-time fair queueing (Goyal, Vin and Cheng 1996),
 * which need not know beforehand how long a turn takes. It bounds what two who always want one can differ in: the
 * longest turn of each, on each worker. Here are the times' order and a heap of them; what is charged is fair_queue.h's
 * business. The caller locks.
 *
 * The heap is a pairing heap (Fredman and others 1986): it lies in the entries themselves, so nothing can fail, and to
 * put in, to take the first out and to take any out are a few dozen instructions, or logarithmic over many. Times wrap
 * around and are compared by their difference. */
#ifndef STI_EXECUTOR_BASE_TURNS_H
#define STI_EXECUTOR_BASE_TURNS_H

#include <stdbool.h>
#include <stdint.h>

struct sti_turn {
    uint64_t time;
    uint64_t number;        /* of those with the same time the one comes first that was put in first */
    struct sti_turn *child; /* the first of those below */
    struct sti_turn *next;  /* with the same parent */
    struct sti_turn **link; /* that points here; NULL: it is in none */
};

struct sti_turns {
    struct sti_turn *first; /* NULL: none */
    uint64_t numbers;
};

static inline bool sti_time_is_before(uint64_t time, uint64_t other)
{
    return (int64_t)(time - other) < 0;
}

static inline uint64_t sti_time_later(uint64_t time, uint64_t other)
{
    return sti_time_is_before(time, other) ? other : time;
}

#endif
