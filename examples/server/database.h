/* SPDX-License-Identifier: MIT
 *
 * The database as queries see it: opened read-only, and under an authorizer that allows nothing but reading. */
#ifndef SERVER_DATABASE_H
#define SERVER_DATABASE_H

#include <sqlite3.h>
#include <stdbool.h>

/* main, once, before any thread: what SQLite has one of in a process. A result code of SQLite's. */
int database_ready(void);

/* Open it. Any thread; in a task its memory is the task's, and vfs_close_all is what a guard has to call. *refused,
 * which must live as long as it is open, becomes true when something is asked for that is not allowed: SQLite's result
 * code does not always say so. A result code of SQLite's; *database is to be closed in any case. */
int database_open(const char *path, bool *refused, sqlite3 **database);

#endif
