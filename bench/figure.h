/* SPDX-License-Identifier: MIT
 *
 * Figures: what is printed, written as JSON, and compared with an earlier run. Main thread only. */
#ifndef BENCH_FIGURE_H
#define BENCH_FIGURE_H

#include <stdio.h>

#include "harness.h"

struct figure {
    char bench[64];
    char subject[64]; /* "ours/other" for a ratio */
    unsigned workers;
    char unit[16]; /* "ratio" for one, of which min and max are those of the starts' medians */
    size_t n;
    double median;
    double min;
    double max;
    double p99;
};

struct figure_list {
    struct figure *list;
    size_t count;
    size_t room;
};

/* Append what the job has measured. Ends the process when there is no memory. */
void figure_collect(struct figure_list *figures, const struct job *job);

void figure_write(const struct figure_list *figures, FILE *out);

/* False, and a message on standard error: it cannot be read. */
bool figure_read(struct figure_list *figures, const char *path);

/* Prints which figures of ours got slower, beyond the noise of both runs. Returns how many. */
size_t figure_compare(const struct figure_list *old, const struct figure_list *now, const char *old_path, FILE *out);

void figure_free(struct figure_list *figures);

#endif
