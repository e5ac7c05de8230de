/* SPDX-License-Identifier: MIT
 *
 * Running the list: run_bounded does it with tasks and budgets, run_unbounded with plain threads, as the baseline. Both
 * hand each result to the report in the order of the list. With tasks there is a window of RUN_WINDOW records, however
 * long the list is: the oldest that has not ended holds its end, the newest that was started its beginning. After
 * Ctrl-C nothing further is begun, and what does not stop in time is reported as such and left. Called by main. */
#ifndef BATCH_RUN_H
#define BATCH_RUN_H

#include "paths.h"
#include "report.h"
#include "wall.h"

#define RUN_WINDOW 16384
#define RUN_TICK_NS UINT64_C(100000000) /* between two looks at the progress while the oldest is waited for */

struct run {
    const struct paths *paths;
    struct report *report;
    unsigned workers;
    stint_budget budget;
    stint_wall *wall;  /* NULL: documents are parsed in place */
    stint_token *root; /* set by Ctrl-C */
    bool left;         /* out: something still runs, which only the end of the process stops */
};

/* 0, or an errno value: the threads could not be had, and nothing was run. */
int run_bounded(struct run *run);
int run_unbounded(struct run *run);

/* Report files of the list that were not begun, from the index on. */
void run_report_unbegun(const struct run *run, size_t index);

/* Report one that has not ended, and is left: it does not stop, or waits behind one that does not. Its record is its
 * task's still, and not looked at. */
void run_report_left(struct run *run, size_t index, bool begun);

#endif
