/* SPDX-License-Identifier: MIT
 *
 * What the page shows: the queries that run, with what they hold and have allocated, and how queries have ended so far,
 * as one server-sent event. The loop's. */
#ifndef SERVER_STATE_H
#define SERVER_STATE_H

#include "server.h"

/* The event is made: event: state and its data. NULL: there was no memory for it. Valid during the call. */
typedef void state_told_fn(struct server *server, const char *text, size_t length);

/* Have it made: told is called later, on the loop. 0; EALREADY: it has been called; or as chore_begin: it will not
 * be. */
int state_ask(struct server *server, state_told_fn *told);

#endif
