/* SPDX-License-Identifier: MIT
 *
 * The page, and the events that it lives on: what runs now and how queries have ended, twice a second, as server-sent
 * events, to as many pages as are open. What the tasks hold is asked by a chore, as a visit may wait for their threads;
 * nothing is asked while no page is open. The loop's. */
#ifndef SERVER_PAGE_H
#define SERVER_PAGE_H

#include "server.h"

struct listener;

/* 0, or an errno value. */
int page_create(struct server *server);
void page_free(struct page *page);

enum MHD_Result page_handle(struct server *server, struct MHD_Connection *connection, const char *rest);
enum MHD_Result page_handle_events(struct server *server, struct MHD_Connection *connection, const char *rest);

/* The client of a listener has hung up. */
void page_drop(struct listener *listener);

/* End the events of all. */
void page_end(struct page *page);

#endif
