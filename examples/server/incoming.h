/* SPDX-License-Identifier: MIT
 *
 * What clients send, read before libmicrohttpd reads it: it asks recv for their bytes, and recv is this program's. So a
 * request with a fault (framing.h) never reaches it. The loop's. */
#ifndef SERVER_INCOMING_H
#define SERVER_INCOMING_H

#include "framing.h"

/* From now on read what comes at the socket: the framing is the caller's, and stays where it is. False: no memory. */
bool incoming_watch(int socket, struct framing *framing);

/* Before the socket is closed. */
void incoming_forget(int socket);

#endif
