/* SPDX-License-Identifier: MIT
 *
 * The server of examples/server-small.c without a thread for each connection: what a loop has to do for it is to watch
 * one descriptor. In it are libmicrohttpd's own, that of a completion queue, and the sockets of clients whose documents
 * are being parsed, so that a client that goes away is noticed. On the thread of the loop. */
#ifndef EXAMPLES_LOOPS_DOCUMENTS_H
#define EXAMPLES_LOOPS_DOCUMENTS_H

#include <stdbool.h>
#include <stint/stint.h>

struct MHD_Daemon;

struct documents {
    stint_wall *wall;
    stint_pool *pool;
    stint_completions *completions;
    struct MHD_Daemon *server;
    int descriptor;   /* readable: documents_turn has something to do */
    unsigned parsing; /* requests whose tasks have not ended */
};

/* Listen at the port of this machine; 0: any. Prints the address. False: it cannot, and has said why. To be called
 * before there is any thread. */
bool documents_open(struct documents *documents, int port);

/* Do what there is to do; never blocks. */
void documents_turn(struct documents *documents);

/* Call documents_turn after so many milliseconds all the same; -1: no need. */
int documents_timeout(const struct documents *documents);

/* Take no more clients. What is being parsed goes on: turn until parsing is 0. */
void documents_end(struct documents *documents);

void documents_close(struct documents *documents);

#endif
