/* SPDX-License-Identifier: MIT
 *
 * Measuring one bench, as bounded jobs of a stint pool. In each job the programs of all its subjects are started,
 * measured in turns (A B C A B C ...), and ended, so that the machine's mood favours none of them. The jobs of a bench
 * are spread over the whole run, since moods last, and a process costs a little more or less for as long as it runs,
 * depending on where it happens to lie in memory. */
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
    size_t starts;               /* of each program so far */
    size_t rounds;               /* measurements a start */
    atomic_size_t done;          /* measurements of this start, for the progress line */
    const char *_Atomic subject; /* that is measured, or could not be */
    bool broken;                 /* a start has failed */
    struct series series[BENCH_SUBJECTS_MAX];
};

/* Submit one more start to the pool. 0 or an errno value. When its outcome is Ok, the caller adds it to starts;
 * otherwise the figures went with the task, and nothing but harness_forget may follow. */
int harness_submit(stint_pool *pool, struct job *job, stint_future **future);

void harness_forget(struct job *job);

/* How many measurements a start makes. */
size_t harness_measurements(const struct job *job);

bool harness_is_ours(const struct bench *bench, size_t subject);

/* Whether the subject has a row of its own in a table: ours, or the first of a bench that has none of ours. */
bool harness_has_row(const struct bench *bench, size_t subject);

/* Whether ratios of the one subject to the other are of interest. */
bool harness_is_compared(const struct bench *bench, size_t ours, size_t other);

/* One subject over another, by pairs of measurements: the median, and its interval over the starts. */
struct comparison {
    double median;
    struct interval interval;
    struct figures starts; /* the median of each start, sorted */
};

/* False: out of memory, or one of them was not measured. starts is to be freed. */
bool harness_compare(const struct job *job, size_t ours, size_t other, struct comparison *comparison);

void harness_free(struct job *job);

#endif
