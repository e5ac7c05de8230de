/* SPDX-License-Identifier: MIT
 *
 * How a request is framed; see framing.h. libmicrohttpd goes by the first of several lengths, by the chunks where there
 * is a length as well, reads to the end of the connection where the coding is one that it does not know, and knows no
 * name that has a space before its colon. */
#include "framing.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

/* Of which there may be one. */
static const char *const single[] = { MHD_HTTP_HEADER_CONTENT_LENGTH,
                                      MHD_HTTP_HEADER_TRANSFER_ENCODING,
                                      MHD_HTTP_HEADER_HOST,
                                      MHD_HTTP_HEADER_AUTHORIZATION,
                                      MHD_HTTP_HEADER_ORIGIN,
                                      "Stint-Memory",
                                      "Stint-Allocation",
                                      "Stint-Timeout" };

enum { LENGTH, CODING, SINGLE = sizeof single / sizeof *single };

struct found {
    unsigned count[SINGLE];
    bool odd_name, odd_coding;
};

static enum MHD_Result look(void *argument, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind;
    struct found *found = argument;
    for (unsigned i = 0; i < SINGLE; i++)
        found->count[i] += strcasecmp(name, single[i]) == 0;
    found->odd_name = found->odd_name || !*name || strpbrk(name, " \t");
    if (strcasecmp(name, single[CODING]) == 0 && strcasecmp(value ? value : "", "chunked") != 0)
        found->odd_coding = true;
    return MHD_YES;
}

const char *framing_fault(struct MHD_Connection *connection)
{
    struct found found = { .odd_name = false };
    MHD_get_connection_values(connection, MHD_HEADER_KIND, look, &found);
    if (found.odd_name)
        return "the name of a header has a space in it, or is none";
    if (found.odd_coding)
        return "a body can be chunked, and has no other coding";
    if (found.count[LENGTH] && found.count[CODING])
        return "a body has a length or is chunked, and not both";
    for (unsigned i = 0; i < SINGLE; i++) {
        if (found.count[i] > 1)
            return "a header is there twice that can be there once";
    }
    return NULL;
}
