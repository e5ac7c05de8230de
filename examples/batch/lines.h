/* SPDX-License-Identifier: MIT
 *
 * The machine's report: one JSON object a line, one line a file, and one for the whole. Main thread only; ferror tells
 * of a failed write. */
#ifndef BATCH_LINES_H
#define BATCH_LINES_H

#include "report.h"

typedef struct lines_totals {
    report_tally tally;
    size_t files, skipped;
    unsigned workers;
    uint64_t wall_ns, max_rss;
} lines_totals;

void lines_document(FILE *stream, const parse_document *document, const stint_outcome *outcome);
void lines_summary(FILE *stream, const lines_totals *totals);

#endif
