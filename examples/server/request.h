/* SPDX-License-Identifier: MIT
 *
 * A request for a query, from its first header to the last byte of its answer. The loop's; its query's thread has the
 * record and the channel while it runs.
 *
 * It lives until its query has resolved and its connection is done with it, in whatever order, and then to the end of
 * the loop's turn. */
#ifndef SERVER_REQUEST_H
#define SERVER_REQUEST_H

#include "query.h"
#include "server.h"

struct request {
    struct arrival arrival; /* first: what its completion points to */
    struct mail mail;
    struct server *server;
    struct request *next, **link; /* among the unresolved; next among the dead */
    uint64_t id;
    uint64_t submitted_ns; /* 0: it was not */
    char name[40];         /* its number and how its statement begins: what reports and visits call the task */

    /* The request's body. */
    char *body; /* with a zero byte at the end */
    size_t length, room;
    size_t received; /* with what was too much */
    bool too_long;

    query_record record;
    struct channel channel;
    stint_budget budget;
    stint_account *account;
    stint_token *token;
    stint_future *future;   /* of a task that has not resolved */
    struct request *queued; /* an unbounded query: the next that waits */
    atomic_bool finished;   /* it has ended, with this error */
    int error;

    /* What a walled query has answered; NULL: nothing, or it has been handed on. */
    void *reply;
    size_t reply_length;

    bool resolved; /* it will not run, or not any more, with this outcome and verdict */
    stint_outcome outcome;
    struct verdict verdict;

    /* Its connection; NULL: that is done with it. */
    struct MHD_Connection *connection;
    struct client *client;
    struct MHD_Response *response; /* of a stream, while that is being sent */
    struct chunk *sending;
    size_t sent; /* of that chunk */
    bool suspended;
    bool streaming;
    bool broken; /* the stream ends without its end, so that nobody takes it for whole */
};

/* NULL: out of memory. */
struct request *request_create(struct server *server, struct MHD_Connection *connection, struct client *client,
                               stint_account *account);

/* Some more of its body. False: out of memory. More than the options allow only sets too_long. */
bool request_append(struct request *request, const char *bytes, size_t length);

/* Its body is complete: have it run. It may resolve at once, where it is refused. */
void request_submit(struct request *request);

/* Have it stopped, if it has not ended. */
void request_cancel(struct request *request);

/* Give it ten seconds more. 0; EALREADY: it has been stopped or has ended; ENOTSUP: it has no limit of time, or no
 * task. */
int request_extend(struct request *request);

/* Its connection is done with it. */
void request_leave(struct request *request);

/* The unresolved one with this number; NULL: there is none. */
struct request *request_find(struct server *server, uint64_t id);

/* What its query's thread has posted. */
void request_mail(struct mail *mail);

/* Free the dead. */
void requests_bury(struct server *server);

#endif
