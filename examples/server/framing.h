/* SPDX-License-Identifier: MIT
 *
 * Whether requests say in one way only where they end and what they want. It looks at the bytes of a connection before
 * anybody takes them. The loop's. */
#ifndef SERVER_FRAMING_H
#define SERVER_FRAMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What it knows of a connection; all zero at the start. */
struct framing {
    const char *fault; /* what is wrong behind the good bytes, for their sender; NULL: nothing so far */
    uint64_t good;     /* so many of the next bytes may be taken: of a body those too that have not come */
    bool too_long;     /* that is the fault */
    size_t heads;      /* requests whose headers have come */
    bool ended;        /* its sender has said that nothing more comes */

    /* Its own. */
    unsigned place; /* what comes behind the good bytes */
};

/* A head, or another part that is looked at as a whole, is shorter. */
#define FRAMING_LONGEST ((size_t)32 << 10)

/* Look at what has come and was not taken yet. Whoever stands between could read a request with a fault otherwise than
 * this server does, and take the end of its body for the next request, or let the wrong key pass (RFC 9112, 6.3 and
 * 11.2, on request smuggling): so it is to be refused, and its connection to end. Returns how many of the bytes may be
 * taken; behind them is a fault, or a part that has not come as a whole. */
size_t framing_look(struct framing *framing, const char *bytes, size_t length);

/* So many of them were taken. */
void framing_take(struct framing *framing, size_t length);

#endif
