/* SPDX-License-Identifier: MIT
 *
 * One query: its record, and the function that runs it. The record is the event loop's. While the query runs, its
 * thread writes what is said of it below, and nothing else; it reads what is set before the submission. */
#ifndef SERVER_QUERY_H
#define SERVER_QUERY_H

#include "channel.h"
#include "closed_sqlite.h"
#include "rows.h"
#include "turns.h"

#include <stint/stint.h>

typedef struct query_record {
    const char *path; /* of the database */
    const char *statement;
    rows_format format;
    struct channel *channel;
    const void *account; /* in: whose turns it takes */
    struct turn turn;
    closed_sqlite_refusal refusal; /* what it wanted and is not allowed */
    char message[512];             /* what was wrong, where the function returns an error */

    /* For those who look on: it has begun; somebody wants to know what it has allocated; and what that was when
     * somebody last wanted to. */
    atomic_bool begun;
    atomic_bool asked;
    atomic_size_t allocated;
} query_record;

/* A stint_fn: runs the statement of a query_record, in a task or outside of one.
 *
 * 0; EBADMSG: it is no good statement; EACCES: it is one that is not allowed; EBUSY: the database is locked by another
 * process; ENOMEM; ECANCELED: nobody reads the answer; EIO: the database cannot be read. */
int query_run(void *record, void **value);

/* The same for a walled query, whose answer goes to the sink, and which has no channel, no turn and nobody who looks
 * on: in a process of its own. */
int query_run_to(query_record *record, const struct sink *sink);

/* A stint_worker_fn, for each thread that runs queries: they come after the event loop. Everything goes through that,
 * in pieces of some microseconds, and beside as many busy threads as there are workers it would wait for its turn each
 * time. Linux: setpriority is about the calling thread. */
void query_give_way(void *unused, unsigned index);

/* How a task that runs one wants to be stopped; no limits yet. */
stint_options query_options(void);

#endif
