/* SPDX-License-Identifier: MIT
 *
 * What the server tells of itself: metrics, profiles, and the queries that were stopped. The loop's; what takes long is
 * a chore, whose connection sleeps meanwhile. */
#ifndef SERVER_DEBUG_H
#define SERVER_DEBUG_H

#include "server.h"

enum MHD_Result debug_handle_metrics(struct server *server, struct MHD_Connection *connection, const char *rest);
enum MHD_Result debug_handle_profile(struct server *server, struct MHD_Connection *connection, const char *rest);
enum MHD_Result debug_handle_stopped(struct server *server, struct MHD_Connection *connection, const char *rest);

#endif
