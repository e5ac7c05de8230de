/* SPDX-License-Identifier: MIT
 *
 * Queries behind a wall: each runs in a process of its own, which may open the database and nothing else, and whose
 * answer comes whole. */
#ifndef SERVER_WALLED_H
#define SERVER_WALLED_H

#include "query.h"
#include "server.h"

/* Make the server's wall, for its database. main, before any thread, and while SQLite has no file open. 0, or an errno
 * value and what is wrong in message. */
int walled_open(struct server *server, char *message, size_t room);

/* As stint_submit, of a query whose statement has so many bytes; of its record path and channel are of no use. Both
 * stay as they are until the future has resolved. The loop. */
int walled_submit(struct server *server, const query_record *record, size_t length, const stint_options *options,
                  stint_future **future);

#endif
