/* SPDX-License-Identifier: MIT
 *
 * A tally: how many tasks have resolved for each reason. A worker has one that only it writes, on lines of its own, with
 * plain stores; who is no worker adds to the pool's, which is shared. Anybody may read. All orders are relaxed: each
 * number is right by itself. */
#ifndef STI_EXECUTOR_TALLY_H
#define STI_EXECUTOR_TALLY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stint/statistics.h>

typedef _Atomic uint64_t sti_counter;

struct sti_tally {
    bool shared;
    sti_counter outcomes[STINT_REASONS_MOST];
};

/* The counter's only writer. */
static inline void sti_counter_add_own(sti_counter *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1, memory_order_relaxed);
}

static inline void sti_tally_count(struct sti_tally *tally, stint_reason reason)
{
    if (tally->shared)
        atomic_fetch_add_explicit(&tally->outcomes[reason], 1, memory_order_relaxed);
    else
        sti_counter_add_own(&tally->outcomes[reason]);
}

#endif
