/* SPDX-License-Identifier: MIT
 *
 * What the benchmarks share: a clock, and medians. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static inline double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static inline int measure_ascending(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Sorts the figures; part is 0.5 for the median, 0.99 for p99. */
static inline double quantile(double *figures, size_t count, double part)
{
    qsort(figures, count, sizeof *figures, measure_ascending);
    return figures[(size_t)((double)(count - 1) * part)];
}

static inline double median(double *figures, size_t count)
{
    return quantile(figures, count, 0.5);
}

#endif
