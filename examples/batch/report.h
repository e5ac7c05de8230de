/* SPDX-License-Identifier: MIT
 *
 * What the user sees: progress while it runs, JSON lines as results come, then a table of all that was not Ok and a
 * summary. Main thread only. */
#ifndef BATCH_REPORT_H
#define BATCH_REPORT_H

#include "parse.h"

#include <stdio.h>

struct report;

typedef struct report_tally {
    size_t ok, error, cancelled;
} report_tally;

typedef struct report_options {
    size_t files, skipped;
    unsigned workers;
    bool unbounded;
    bool quiet;
    const char *why; /* a folder for what is known of each that was not Ok; NULL: none is wanted */
    FILE *json;      /* NULL: none */
    FILE *text;      /* for table and summary */
} report_options;

/* NULL: out of memory. */
struct report *report_begin(const report_options *options);

/* The next result of the list. The path is kept, not copied. why: of what was not Ok; may be NULL. */
void report_document(struct report *report, const parse_document *document, const stint_outcome *outcome,
                     const stint_report *why);

/* The same, of what ran elsewhere: why is the line that why_line made there, and is freed here; may be NULL. */
void report_line(struct report *report, const parse_document *document, const stint_outcome *outcome, char *why);

/* What ran them, where that is known only at the end. */
void report_workers(struct report *report, unsigned workers);

void report_count(report_tally *tally, stint_status status);

/* Whether the bar is shown and it is time to draw it again. */
bool report_progress_due(const struct report *report);

/* Draw it: what was reported, and what has ended ahead of that. */
void report_progress(struct report *report, const report_tally *ahead);

/* Whether why could not be saved of all: 0, or the first errno value. */
int report_why_error(const struct report *report);

/* Frees the report without a word: nothing was run. */
void report_abandon(struct report *report);

/* Table and summaries; frees the report. Returns what was counted. */
report_tally report_end(struct report *report);

#endif
