/* SPDX-License-Identifier: MIT
 *
 * What a library's file gives to parse.c, and what it may use of it. Each parses a text of size bytes with a zero byte
 * behind it, counts into document->items, and returns 0, or an errno value with document->detail filled. Ready
 * functions run on the main thread, outside any task; parse functions in a task. */
#ifndef JOBS_LIBRARY_H
#define JOBS_LIBRARY_H

#include "parse.h"

void xml_ready(void);
int xml_parse(parse_document *document, const char *text, size_t size);

void json_ready(void);
int json_parse(parse_document *document, const char *text, size_t size);

void sql_ready(void);
int sql_parse(parse_document *document, const char *text, size_t size);

int expr_parse(parse_document *document, const char *text, size_t size);
int lua_parse(parse_document *document, const char *text, size_t size);

/* In a process of its own only. */
int bad_parse(parse_document *document, const char *text, size_t size);

/* Write document->detail, cut to its size, on one line. */
void parse_explain(parse_document *document, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
