/* SPDX-License-Identifier: MIT
 *
 * The answer to a query. While what has come of it fits into the channel it is held back, so that its status says how
 * it ended, and its headers what it took. When there is more it is streamed: status 200 has gone out by then, so
 * trailers say what it took, and one that is stopped says so in its last object, of JSON, and is broken off. That of a
 * walled query is always whole.
 *
 * The loop's. */
#ifndef SERVER_ANSWER_H
#define SERVER_ANSWER_H

#include "request.h"

/* Its query has been submitted: its connection sleeps until there is something to send. */
void answer_wait(struct request *request);

/* Its query has ended, with its verdict, or was refused. */
void answer_resolved(struct request *request);

/* Its query has more to send. */
void answer_has_more(struct request *request);

#endif
