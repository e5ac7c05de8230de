/* SPDX-License-Identifier: MIT
 *
 * The event loop: one epoll over MHD's own, the completion queue's descriptor, the mailbox's, signals, the page's
 * timer, and the sockets of clients, of which only the end is looked for. Nothing in it blocks.
 *
 * SIGTERM and SIGINT: no further connection and no further query; those that are under way get their time, then they
 * are cancelled; a second signal does not wait. SIGHUP: the tenants' file is read again. */
#ifndef SERVER_LOOP_H
#define SERVER_LOOP_H

#include "server.h"

/* The signals that the loop wants: to be blocked before any thread is started. */
void loop_block_signals(void);

/* Until it is told to end. 0: all has ended; ETIMEDOUT: something does not end, and what it uses must be left alone; or
 * another errno value, where the loop could not begin. */
int loop_run(struct server *server);

#endif
