/* SPDX-License-Identifier: MIT
 *
 * The database as queries see it: opened read-only, and under an authorizer that allows nothing but reading. */
#ifndef SERVER_DATABASE_H
#define SERVER_DATABASE_H

#include "closed_sqlite.h"

/* main, once, before any thread: what SQLite has one of in a process. A result code of SQLite's. */
int database_ready(void);

/* Open it. Any thread; in a task its memory is the task's, and vfs_close_all is what a guard has to call. As
 * closed_sqlite_open. */
int database_open(const char *path, closed_sqlite_refusal *refusal, sqlite3 **database);

#endif
