/* SPDX-License-Identifier: MIT
 *
 * The tables of the benchmark: a row is a bench, with the subjects that are measured beside each other and the targets
 * that their figures should meet. Each group of rows is one file. In every figure less is better. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>

#include "serve.h"

#define BENCH_SUBJECTS_MAX 6
#define BENCH_TARGETS_MAX 4
#define BENCH_ALL 1024

/* Ours begin with "stint"; each of them is compared with each of the others. */
struct bench_subject {
    const char *name;
    const char *program; /* that measures it, beside this one; NULL: this one, by what follows */
    const char *package; /* whose lack keeps that program from being built; NULL: it is always built */
    bench_prepare_fn *prepare;
    bench_measure_fn *measure;
    bool bare; /* what the machine takes for as much as a target is counted in: no peer, which one would use instead */
};

enum bench_statistic {
    BENCH_MEDIAN,
    BENCH_P99,
    BENCH_MAX,
    BENCH_RATIO, /* to against, the median */
};

struct bench_target {
    const char *subject; /* NULL: no more targets */
    enum bench_statistic statistic;
    double max;
    const char *against; /* of another than a ratio: in medians of this subject, or NULL: in the bench's unit */
};

struct bench {
    const char *name; /* NULL: the end of the table */
    const char *unit;
    const char *what;
    unsigned rounds;  /* measurements of each subject, in turns, a start of its program; --quick takes a third */
    unsigned workers; /* threads; 0: one, BENCH_ALL: as many as processors */
    bool no_ratios;   /* zero is a usual figure, or they say little */
    bool histogram;
    struct bench_subject subjects[BENCH_SUBJECTS_MAX + 1];
    struct bench_target targets[BENCH_TARGETS_MAX + 1];
};

/* The groups. */
extern const struct bench bench_account[];
extern const struct bench bench_alloc[];
extern const struct bench bench_cancel[];
extern const struct bench bench_contain[];
extern const struct bench bench_fair[];
extern const struct bench bench_forking[];
extern const struct bench bench_fork_typed[];
extern const struct bench bench_machine[];
extern const struct bench bench_map[];
extern const struct bench bench_metrics[];
extern const struct bench bench_mutex[];
extern const struct bench bench_overload[];
extern const struct bench bench_overshoot[];
extern const struct bench bench_profile[];
extern const struct bench bench_report[];
extern const struct bench bench_roots[];
extern const struct bench bench_run[];
extern const struct bench bench_start[];
extern const struct bench bench_submitting[];
extern const struct bench bench_wall[];
extern const struct bench bench_wipe[];

#endif
