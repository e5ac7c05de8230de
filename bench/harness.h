/* SPDX-License-Identifier: MIT
 *
 * Measuring one bench, as a bounded job of a stint pool. The programs of all its subjects are started, measured in turns
 * (A B C A B C ...), ended, and started anew, so that neither the machine's mood nor where a process happens to lie in
 * memory favours one of them. */
#ifndef BENCH_HARNESS_H
#define BENCH_HARNESS_H

#include <stdatomic.h>
#include <stint/stint.h>

#include "bench.h"
#include "statistics.h"

struct series {
    bool built;
    struct figures figures; /* all, sorted */
    struct figures turns;   /* the median of each measurement, in the order in which they were made */
};

struct job {
    const struct bench *bench;
    unsigned workers;
    size_t starts;              /* of each program */
    size_t rounds;              /* measurements a start */
    atomic_size_t done;         /* measurements, for the progress line */
    const char *_Atomic failed; /* the subject that could not be measured */
    struct series series[BENCH_SUBJECTS_MOST];
};

/* Submit the job to the pool. 0 or an errno value. */
int harness_submit(stint_pool *pool, struct job *job, stint_future **future);

/* How many measurements it will make. */
size_t harness_measurements(const struct job *job);

/* Whether ratios of the one subject to the other are of interest. */
bool harness_is_compared(const struct bench *bench, size_t ours, size_t other);

/* One subject over another, by pairs of measurements: the median, and its interval over the starts. */
struct comparison {
    double median;
    struct interval interval;
    struct figures starts; /* the median of each start, sorted */
};

/* The quotients, or the differences. False: out of memory, or one of them was not measured. starts is to be freed. */
bool harness_compare(const struct job *job, size_t ours, size_t other, bool difference, struct comparison *comparison);

void harness_free(struct job *job);

#endif
