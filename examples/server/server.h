/* SPDX-License-Identifier: MIT
 *
 * What there is one of in the server. It belongs to the event loop, which is main's thread, and so do all functions
 * that take it, unless they say something else. */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include "mailbox.h"
#include "options.h"
#include "tenants.h"
#include "verdict.h"

#include <microhttpd.h>
#include <stint/stint.h>
#include <stint/wall.h>

struct request;
struct client;
struct threads;
struct stopped;
struct page;

/* What a descriptor of the loop's epoll stands for. */
struct watch {
    void (*ready)(struct watch *watch);
};

/* What the data of a completion points to. */
struct arrival {
    void (*done)(struct arrival *arrival, const stint_outcome *outcome);
};

struct server {
    const struct options *options;
    const char *database;
    const char *page_key; /* NULL: none */
    unsigned workers;
    int poll;
    struct MHD_Daemon *daemon;
    stint_completions *completions;
    stint_pool *pool;        /* of the queries; NULL: they are unbounded */
    stint_wall *wall;        /* that the queries run behind; NULL: they run in place */
    struct threads *threads; /* of the unbounded queries */
    stint_pool *chores;      /* what the loop has others do for it, as it blocks */
    struct mailbox mailbox;
    struct tenants *tenants;
    struct stopped *stopped;
    struct page *page;
    struct request *unresolved; /* submitted */
    size_t unresolved_count;
    struct request *dead; /* to be freed at the end of this turn of the loop, which may still have events for them */
    struct client *clients;
    struct client *dead_clients;
    unsigned client_count;
    unsigned chore_count;
    unsigned answering; /* requests that were submitted or refused, and have a connection yet */
    uint64_t last_id;
    uint64_t tally[VERDICT_KINDS];
    bool draining; /* no query is taken any more */
};

#endif
