/* SPDX-License-Identifier: MIT
 *
 * SQLite's files, as a task may use them. SQLite's own layer for files (its VFS) keeps state of the process: a list of
 * the files that are open, with the locks on them, which all connections share. A task's memory is a transaction, and
 * must not become a part of that. So this VFS stands before SQLite's own and has each of its calls made in a keep
 * region, masked: what it allocates and opens is the process's. And it remembers the files that the thread's query has
 * open, so that a guard can give them back when the query is left by a jump. */
#ifndef SERVER_VFS_H
#define SERVER_VFS_H

#define VFS_NAME "stint-sqld"

/* main, once, after sqlite3_initialize. A result code of SQLite's. */
int vfs_register(void);

/* A guard's release, on the thread of the query: unlock and close what its query has left open. */
void vfs_close_all(void *unused);

#endif
