/* SPDX-License-Identifier: MIT
 *
 * Whether a request says in one way only where it ends and what it wants. The loop's. */
#ifndef SERVER_FRAMING_H
#define SERVER_FRAMING_H

#include <microhttpd.h>

/* NULL; or what is wrong, for its sender. Whoever stands between could read such a request otherwise than this server
 * does, and take the end of its body for the next request, or let the wrong key pass (RFC 9112, 6.3 and 11.2, on
 * request smuggling): so it is refused, and its connection ends. */
const char *framing_fault(struct MHD_Connection *connection, const char *version);

#endif
