/* SPDX-License-Identifier: MIT
 *
 * The rows of an answer; see rows.h. */
#include "rows.h"
#include "text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *rows_type(rows_format format)
{
    return format == ROWS_CSV ? "text/csv; charset=utf-8; header=present" : "application/json";
}

static int put(const struct rows *rows, const void *bytes, size_t length)
{
    return rows->sink->write(rows->sink->to, bytes, length);
}

static int put_string(struct rows *rows, const char *string)
{
    return put(rows, string, strlen(string));
}

static int put_base64(struct rows *rows, const unsigned char *bytes, size_t length)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    int error = 0;
    for (size_t i = 0; i < length && !error; i += 3) {
        size_t left = length - i;
        unsigned group =
            (unsigned)bytes[i] << 16 | (left > 1 ? (unsigned)bytes[i + 1] << 8 : 0) | (left > 2 ? bytes[i + 2] : 0);
        char four[4] = { digits[group >> 18], digits[group >> 12 & 63], left > 1 ? digits[group >> 6 & 63] : '=',
                         left > 2 ? digits[group & 63] : '=' };
        error = put(rows, four, sizeof four);
    }
    return error;
}

/* 15 digits where they read back the same, which is what people wrote; else the 17 that always do. */
static int put_real(struct rows *rows, double real)
{
    char text[32];
    if (isinf(real))
        return put_string(rows, real < 0 ? "-9e999" : "9e999");
    snprintf(text, sizeof text, "%.15g", real);
    if (strtod(text, NULL) < real || strtod(text, NULL) > real)
        snprintf(text, sizeof text, "%.17g", real);
    if (!strpbrk(text, ".e"))
        strcat(text, ".0");
    return put_string(rows, text);
}

static int put_integer(struct rows *rows, sqlite3_int64 integer)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)integer);
    return put_string(rows, text);
}

static int put_blob(struct rows *rows, sqlite3_stmt *statement, int column)
{
    const unsigned char *bytes = sqlite3_column_blob(statement, column);
    bool csv = rows->format == ROWS_CSV;
    int error = csv ? 0 : put_string(rows, "{\"base64\":\"");
    if (!error)
        error = put_base64(rows, bytes, (size_t)sqlite3_column_bytes(statement, column));
    return error || csv ? error : put_string(rows, "\"}");
}

/* Quoted where it has to be; a quote is doubled. */
static int put_field(struct rows *rows, const char *text, size_t length)
{
    bool quoted = length == 0;
    for (size_t i = 0; i < length && !quoted; i++)
        quoted = text[i] == '"' || text[i] == ',' || text[i] == '\n' || text[i] == '\r';
    int error = quoted ? put_string(rows, "\"") : 0;
    for (size_t i = 0; i < length && !error;) {
        size_t character = text_character((const unsigned char *)text + i, length - i);
        if (character == 0)
            error = put_string(rows, TEXT_REPLACEMENT);
        else if (text[i] == '"')
            error = put_string(rows, "\"\"");
        else
            error = put(rows, text + i, character);
        i += character ? character : 1;
    }
    return error || !quoted ? error : put_string(rows, "\"");
}

static int put_text(struct rows *rows, const void *text, size_t length)
{
    return rows->format == ROWS_CSV ? put_field(rows, text, length)
                                    : json_write_string(rows->sink->write, rows->sink->to, text, length);
}

static int put_name(struct rows *rows, sqlite3_stmt *statement, int column)
{
    const char *name = sqlite3_column_name(statement, column);
    return put_text(rows, name ? name : "", name ? strlen(name) : 0);
}

static int put_value(struct rows *rows, sqlite3_stmt *statement, int column)
{
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER:
        return put_integer(rows, sqlite3_column_int64(statement, column));
    case SQLITE_FLOAT:
        return put_real(rows, sqlite3_column_double(statement, column));
    case SQLITE_NULL:
        return put_string(rows, rows->format == ROWS_CSV ? "" : "null");
    case SQLITE_BLOB:
        return put_blob(rows, statement, column);
    default: {
        const unsigned char *text = sqlite3_column_text(statement, column);
        return put_text(rows, text, (size_t)sqlite3_column_bytes(statement, column));
    }
    }
}

static int put_all(struct rows *rows, sqlite3_stmt *statement,
                   int (*one)(struct rows *rows, sqlite3_stmt *statement, int column))
{
    int count = sqlite3_column_count(statement);
    int error = 0;
    for (int column = 0; column < count && !error; column++) {
        if (column)
            error = put_string(rows, ",");
        if (!error)
            error = one(rows, statement, column);
    }
    return error;
}

int rows_begin(struct rows *rows, sqlite3_stmt *statement)
{
    bool csv = rows->format == ROWS_CSV;
    rows->first = true;
    int error = csv ? 0 : put_string(rows, "{\"columns\":[");
    if (!error)
        error = put_all(rows, statement, put_name);
    if (!error)
        error = put_string(rows, csv ? "\r\n" : "],\"rows\":[");
    return error ? error : rows->sink->end_row(rows->sink->to);
}

int rows_add(struct rows *rows, sqlite3_stmt *statement)
{
    bool csv = rows->format == ROWS_CSV;
    int error = csv ? 0 : put_string(rows, rows->first ? "\n[" : ",\n[");
    rows->first = false;
    if (!error)
        error = put_all(rows, statement, put_value);
    if (!error)
        error = put_string(rows, csv ? "\r\n" : "]");
    return error ? error : rows->sink->end_row(rows->sink->to);
}

int rows_end(struct rows *rows)
{
    return rows->format == ROWS_CSV ? 0 : put_string(rows, "\n]}\n");
}
