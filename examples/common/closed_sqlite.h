/* SPDX-License-Identifier: MIT
 *
 * SQLite for SQL that others have written: what is not on a list is refused, statements, functions, pragmas and modules
 * alike, nothing but the database itself is read from a file, and nothing is written to one. Each program that runs
 * such SQL opens its databases here. */
#ifndef COMMON_CLOSED_SQLITE_H
#define COMMON_CLOSED_SQLITE_H

#include <sqlite3.h>
#include <stdbool.h>

/* What was refused: SQLite's result code does not always say that something was. */
typedef struct closed_sqlite_refusal {
    bool any;
    char what[48]; /* the first: a function, a pragma, or else what would have been changed; may be empty */
} closed_sqlite_refusal;

typedef enum closed_sqlite_use {
    CLOSED_SQLITE_QUERIES, /* reads */
    CLOSED_SQLITE_SCRIPT,  /* makes tables, indices, views and triggers, and fills them */
} closed_sqlite_use;

typedef struct closed_sqlite_options {
    const char *path; /* NULL: a fresh database in memory */
    const char *vfs;  /* that opens no file without a name; NULL only where there is no path: one that opens none */
    closed_sqlite_use use;
    int longest; /* bytes of a value, of a row and of a statement */
} closed_sqlite_options;

/* main, once, before any thread: what SQLite has one of in a process. A result code of SQLite's; SQLITE_MISUSE where it
 * was built so that it writes temporary data to files, whatever it is told. */
int closed_sqlite_ready(void);

/* Open it. *refusal is filled in when something is refused, and has to live as long as the database is open. *database
 * is to be closed in any case. A result code of SQLite's. Any thread; in a task its memory is the task's. */
int closed_sqlite_open(const closed_sqlite_options *options, closed_sqlite_refusal *refusal, sqlite3 **database);

#endif
