/* SPDX-License-Identifier: MIT
 *
 * What form of an answer an Accept header asks for. A pure function; any thread. */
#ifndef SERVER_ACCEPT_H
#define SERVER_ACCEPT_H

#include "rows.h"

/* The one that it gives the higher quality (RFC 9110, 12.5.1), JSON where they are equal; NULL: JSON. False: neither of
 * them will do. */
bool accept_choose(const char *accept, rows_format *format);

#endif
