/* SPDX-License-Identifier: MIT
 *
 * The machine's report: one JSON object a line, one line a file, and one for the whole. Main thread only. */
#ifndef BATCH_LINES_H
#define BATCH_LINES_H

#include "report.h"

typedef struct lines_totals {
    report_tally tally;
    size_t files, skipped;
    unsigned workers;
    uint64_t wall_ns, max_rss;
} lines_totals;

/* The stream for a --json NAME, of which "-" is standard output; NULL if there is no name. 0, or an errno value after a
 * line on standard error has said why it cannot be opened. */
int lines_open(const char *name, FILE **stream);

/* Whether all that was written is there: 0, or an errno value after a line has said why not. The stream may be NULL. */
int lines_check(const char *name, FILE *stream);

void lines_close(FILE *stream);

/* detail: what is said of it beside its reason; may be empty. */
void lines_document(FILE *stream, const parse_document *document, const stint_outcome *outcome, const char *detail);
void lines_summary(FILE *stream, const lines_totals *totals);

#endif
