/* SPDX-License-Identifier: MIT
 *
 * Counters, histograms, and the tally of ended tasks that is made of both. Each says which thread may write it; anybody
 * may read. All orders are relaxed: each number is right by itself. */
#ifndef STI_ALLOC_PLATFORM_TALLY_H
#define STI_ALLOC_PLATFORM_TALLY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/task.h>

#include "machine.h"

/* --- A counter that one thread writes. With that it needs no locked instruction, and on a line of its own cache it
 * costs that thread next to nothing. --- */

typedef _Atomic uint64_t sti_counter;

static inline uint64_t sti_counter_read(const sti_counter *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* The counter's only writer. */
static inline void sti_counter_raise_own(sti_counter *counter, uint64_t by)
{
    sti_raise_own(counter, by);
}

static inline void sti_counter_add_own(sti_counter *counter)
{
    sti_counter_raise_own(counter, 1);
}

/* --- A histogram by powers of two. Bucket i holds what is above 2^i and not above 2^(i + 1), the first one also 1;
 * what is 0 is in the last one, for which nothing else is ever large enough. */

#define STI_BUCKETS 64
#define STI_BUCKET_OF_NONE (STI_BUCKETS - 1)

struct sti_histogram {
    sti_counter buckets[STI_BUCKETS];
    sti_counter sum;
};

/* The number of the highest bit of what is not 0. */
static inline unsigned sti_highest_bit(uint64_t value)
{
    return (unsigned)__builtin_clzll(value) ^ 63;
}

/* The histogram's only writer. */
static inline void sti_histogram_add_own(struct sti_histogram *histogram, uint64_t number)
{
    sti_counter_raise_own(&histogram->sum, number);
    sti_counter_add_own(&histogram->buckets[sti_highest_bit((number - 1) | 1)]);
}

/* --- A tally of tasks: how many have ended for each reason; of those that began, how long they had waited and then
 * took, in nanoseconds, and how many bytes they were charged. A thread writes its own (thread.h), or that of the worker
 * that it is; what no such thread has counted is in one that is shared. */

#define STI_REASONS 32
#define STI_DEFERRALS 8
#define STI_WAYS 3

struct sti_tally {
    sti_counter outcomes[STI_REASONS];
    struct sti_histogram waited; /* of tasks that were submitted */
    struct sti_histogram ran;
    struct sti_histogram charged;
};

/* The tally's only writer. */
static inline void sti_tally_count(struct sti_tally *tally, stint_reason reason, uint64_t ran, uint64_t charged)
{
    sti_counter_add_own(&tally->outcomes[reason]);
    sti_histogram_add_own(&tally->ran, ran);
    sti_histogram_add_own(&tally->charged, charged);
}

/* --- What several threads have counted, added up: into a tally that is the caller's. --- */

static inline void sti_histogram_add_to(struct sti_histogram *sum, const struct sti_histogram *histogram)
{
    for (size_t i = 0; i < STI_BUCKETS; i++)
        sti_counter_raise_own(&sum->buckets[i], sti_counter_read(&histogram->buckets[i]));
    sti_counter_raise_own(&sum->sum, sti_counter_read(&histogram->sum));
}

static inline void sti_tally_add_to(struct sti_tally *sum, const struct sti_tally *tally)
{
    for (size_t i = 0; i < STI_REASONS; i++)
        sti_counter_raise_own(&sum->outcomes[i], sti_counter_read(&tally->outcomes[i]));
    sti_histogram_add_to(&sum->waited, &tally->waited);
    sti_histogram_add_to(&sum->ran, &tally->ran);
    sti_histogram_add_to(&sum->charged, &tally->charged);
}

#endif
