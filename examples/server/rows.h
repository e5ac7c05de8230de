/* SPDX-License-Identifier: MIT
 *
 * The rows of an answer as JSON or CSV, written as they come. On the query's thread.
 *
 * JSON is {"columns":["a","b"],"rows":[[1,"x"],[2,null]]}, a row a line. Numbers are written so that they read back the
 * same, infinities as 9e999, and a blob is {"base64":"..."}. CSV is RFC 4180 with a line of column names; NULL is
 * empty and an empty text is "", a blob its base64. Text that is not UTF-8 has U+FFFD in the place of what is wrong. */
#ifndef SERVER_ROWS_H
#define SERVER_ROWS_H

#include "json.h"

#include <sqlite3.h>
#include <stdbool.h>

typedef enum rows_format {
    ROWS_JSON,
    ROWS_CSV,
} rows_format;

/* Where they go. The functions return 0 or an errno value, with which the query then ends. */
struct sink {
    json_sink *write;
    int (*end_row)(void *to); /* a row is whole */
    void *to;
};

struct rows {
    const struct sink *sink;
    rows_format format;
    bool first; /* no row has been written */
};

/* "application/json" or "text/csv; charset=utf-8; header=present". */
const char *rows_type(rows_format format);

/* What comes before the rows, the present row of the statement, and what comes after them. 0, or as the sink. */
int rows_begin(struct rows *rows, sqlite3_stmt *statement);
int rows_add(struct rows *rows, sqlite3_stmt *statement);
int rows_end(struct rows *rows);

#endif
