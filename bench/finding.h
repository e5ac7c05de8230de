/* SPDX-License-Identifier: MIT
 *
 * Findings: what the figures of a bench say, each beside its target. Main thread only. */
#ifndef BENCH_FINDING_H
#define BENCH_FINDING_H

#include "harness.h"

/* The ratio of one of ours to a peer, a figure of ours that has a target, or one in medians of another's. */
struct finding {
    size_t ours;
    size_t other; /* but for a figure */
    enum { FINDING_RATIO, FINDING_FIGURE, FINDING_MULTIPLE } kind;
    const char *statistic; /* but for a ratio: median, p99 or max */
    double value;
    struct interval interval;          /* of a ratio */
    const struct bench_target *target; /* NULL: none */
};

#define FINDINGS_MAX (BENCH_SUBJECTS_MAX * BENCH_SUBJECTS_MAX + BENCH_TARGETS_MAX)

/* Of a job whose figures are sorted: ratios first. Returns how many; a subject that was not measured gives none. */
size_t findings_list(const struct job *job, struct finding list[FINDINGS_MAX]);

/* Only of one with a target. */
bool finding_is_met(const struct finding *finding);

/* Whether the peer is better, beyond the interval. */
bool finding_is_lost(const struct job *job, const struct finding *finding);

#endif
