/* SPDX-License-Identifier: MIT
 *
 * Whether requests say in one way only where they end and what they want. It reads the bytes of a connection as they
 * come, in pieces of any size. The loop's. */
#ifndef SERVER_FRAMING_H
#define SERVER_FRAMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What it knows of a connection; all zero at the start. */
struct framing {
    const char *fault; /* what is wrong, for its sender; NULL: nothing so far */
    size_t heads;      /* requests whose headers have come */

    /* Its own. */
    unsigned place;    /* what is to come next */
    bool at_request;   /* no byte of a request has come yet */
    bool trailer;      /* the line is behind a chunked body */
    bool old, chunked; /* HTTP/1.0 */
    bool has_length;
    unsigned seen;   /* a bit for each header of which there may be one */
    uint64_t length; /* of the body; of the chunk; what is left of either */
    unsigned word_length;
    char word[64]; /* the end of the request's line; a header's name; its value */
    int header;    /* which of those the line is; -1: another one */
};

/* Read on. Whoever stands between could read a request with a fault otherwise than this server does, and take the end
 * of its body for the next request, or let the wrong key pass (RFC 9112, 6.3 and 11.2, on request smuggling): so it is
 * to be refused, and its connection to end. Returns how many of the bytes come before the request with the fault; all,
 * if there is none. */
size_t framing_read(struct framing *framing, const char *bytes, size_t length);

#endif
