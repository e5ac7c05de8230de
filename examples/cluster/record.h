/* SPDX-License-Identifier: MIT
 *
 * What came of a job, as it travels: one JSON object. Any thread, outside of tasks. */
#ifndef CLUSTER_RECORD_H
#define CLUSTER_RECORD_H

#include "parse.h"

struct record {
    stint_outcome outcome; /* status, reason, error and usage */
    uint64_t items;
    uint64_t deliveries; /* of the message, with this one */
    char *detail;        /* as parse_document's; never NULL */
    char *why;           /* as why_line made it; NULL: nothing is known */
    char *worker;        /* who says so; never NULL */
};

/* To be freed; NULL: out of memory. It has no line break and only ASCII, so it can be a header too. */
char *record_write(const struct record *record);

/* False: it is none. */
bool record_read(struct record *record, const char *text, size_t size);

/* What record_read made. */
void record_free(struct record *record);

#endif
