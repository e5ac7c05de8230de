/* SPDX-License-Identifier: MIT
 *
 * Quantiles of a growing list of figures. */
#ifndef BENCH_STATISTICS_H
#define BENCH_STATISTICS_H

#include <stdbool.h>
#include <stddef.h>

struct figures {
    double *list;
    size_t count;
    size_t room;
};

/* Append; false: out of memory. */
bool figures_add(struct figures *figures, double figure);
void figures_free(struct figures *figures);
void figures_sort(struct figures *figures);

/* The following of sorted ones. part is 0.5 for the median, 0.99 for p99; 0 if there is none. */
double figures_quantile(const struct figures *figures, double part);

/* An interval that holds the median of what the figures are drawn from with a probability of 95 percent (with fewer
 * than six of them, all of them are too few: then it is as wide as they are). By order, so that it does not matter how
 * they are distributed. */
struct interval {
    double low;
    double high;
};
struct interval figures_interval(const struct figures *figures);

#endif
