/* SPDX-License-Identifier: MIT
 *
 * What an outcome means in HTTP: the status, the words and the numbers that the client is told. Pure functions; any
 * thread. */
#ifndef SERVER_VERDICT_H
#define SERVER_VERDICT_H

#include <stdio.h>
#include <stint/stint.h>

/* What the page counts. */
typedef enum verdict_kind {
    VERDICT_OK,
    VERDICT_FAILED,
    VERDICT_MEMORY,
    VERDICT_ALLOCATION,
    VERDICT_DEADLINE,
    VERDICT_CANCELLED,
    VERDICT_REFUSED,
    VERDICT_KINDS,
} verdict_kind;

struct verdict {
    unsigned status; /* of HTTP */
    verdict_kind kind;
    const char *outcome; /* "ok", "error", "cancelled", "refused" */
    const char *reason;
    const char *message; /* NULL: there is none; else it lies in what verdict_of was given */
    const char *unit;    /* of limit and used: "bytes", "ms", "queries"; NULL: there are none */
    uint64_t limit, used;
    bool retry; /* it may be worth while to try again in a second */
};

/* "ok", "failed", "memory", "allocation", "deadline", "cancelled", "refused". */
const char *verdict_kind_name(verdict_kind kind);

/* message: what the query's function said. account: its account's limits; NULL: not known. */
struct verdict verdict_of(const stint_outcome *outcome, const stint_budget *budget, const char *message,
                          const stint_account_limits *account);

/* Of a query that could not be submitted; error is what stint_submit returned. */
struct verdict verdict_of_refusal(int error, size_t queue, const stint_account_limits *account);

/* {"outcome":"error","reason":"memory-limit","unit":"bytes","limit":1,"used":2}, without an end of line. */
void verdict_print(FILE *file, const struct verdict *verdict);

#endif
