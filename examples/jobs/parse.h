/* SPDX-License-Identifier: MIT
 *
 * Documents and what parses them, for all programs that do: one function that takes a file, or a text that somebody
 * sent, and hands it to the library of its kind. It can run as a task of stint, on any thread, or without a scope. The
 * libraries must have been readied first, by main. */
#ifndef JOBS_PARSE_H
#define JOBS_PARSE_H

#include <stint/stint.h>

typedef enum parse_kind {
    PARSE_XML,
    PARSE_JSON,
    PARSE_SQL,
    PARSE_LUA,
    PARSE_EXPR,
    PARSE_BAD,     /* for a process of its own only: bad.c */
    PARSE_UNKNOWN, /* nothing parses it: it stands in reports, of what could not be looked at */
} parse_kind;

/* The record of one document. It belongs to whoever runs the task, and lies outside the task's memory: it outlives a
 * rollback. So the task copies numbers and characters into it, and never stores a pointer to memory of its own. */
typedef struct parse_document {
    const char *path;
    parse_kind kind;
    const char *text; /* what to parse, of size bytes; NULL: what the file at the path holds */
    size_t size;
    uint64_t items;   /* out: nodes, values, rows or results, whatever the kind counts */
    char detail[160]; /* out: what was wrong, in the words of the library; empty if nothing was */
} parse_document;

/* Make, on the main thread and outside any task, what the libraries make once in a process. */
void parse_ready_libraries(void);

/* Which kind a path's ending stands for; false: none that is known here. */
bool parse_kind_of(const char *path, parse_kind *kind);

/* Which kind has this name. */
bool parse_kind_named(const char *name, parse_kind *kind);

/* "xml", "json", "sql", "lua", "expr", "bad" or "unknown". */
const char *parse_kind_name(parse_kind kind);

/* How a task that parses this kind wants to be stopped; no limits yet. */
stint_options parse_options(parse_kind kind);

/* A stint_fn: document is a parse_document. 0, or an errno value with document->detail filled. */
int parse_document_run(void *document, void **value);

/* The same in a process of its own (wall.h), of what is in the descriptor: text and path are not looked at. */
int parse_document_behind_wall(parse_document *document, int descriptor);

/* Say in document->detail that it cannot be read, and why. Returns the errno value. */
int parse_unread(parse_document *document, int error);

/* Parse a small document of each kind, outside of any task, so that what is done at a first use has been done. */
void parse_warm_up(void);

#endif
