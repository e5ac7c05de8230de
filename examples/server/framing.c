/* SPDX-License-Identifier: MIT
 *
 * How a request is framed; see framing.h. libmicrohttpd goes by the first of several lengths, by the chunks where there
 * is a length as well, in HTTP/1.0 too, reads to the end of the connection where the coding is one that it does not
 * know, and knows no name that has a space before its colon. A line that goes on with the next one it joins to that at
 * its name, and not at its value (0.9.75), so that any name can come of it; from 1.0 on it refuses one where it is to
 * be strict. */
#include "framing.h"

#include <stdbool.h>
#include <stdint.h>
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
    bool odd_name, odd_value, folded, odd_coding;
};

/* A token (RFC 9110, 5.6.2). */
static bool is_name(const char *name)
{
    static const char characters[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    return *name && !name[strspn(name, characters)];
}

/* A lone CR ends a line for some. */
static bool has_controls(const char *value)
{
    const char *at = value;
    while ((unsigned char)*at >= ' ' || *at == '\t')
        at++;
    return *at != '\0';
}

/* Both lie where they were received, the value behind its name; but a name that was joined to something was moved
 * behind all of it. */
static bool is_folded(const char *name, const char *value)
{
    return (uintptr_t)value < (uintptr_t)name;
}

static enum MHD_Result look(void *argument, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind;
    struct found *found = argument;
    for (unsigned i = 0; i < SINGLE; i++)
        found->count[i] += strcasecmp(name, single[i]) == 0;
    found->odd_name = found->odd_name || !is_name(name);
    found->odd_value = found->odd_value || (value && has_controls(value));
    found->folded = found->folded || (value && is_folded(name, value));
    if (strcasecmp(name, single[CODING]) == 0 && strcasecmp(value ? value : "", "chunked") != 0)
        found->odd_coding = true;
    return MHD_YES;
}

const char *framing_fault(struct MHD_Connection *connection, const char *version)
{
    struct found found = { .odd_name = false };
    MHD_get_connection_values(connection, MHD_HEADER_KIND, look, &found);
    if (found.folded)
        return "a header goes on in the next line";
    if (found.odd_name)
        return "the name of a header has a space in it, or is none";
    if (found.odd_value)
        return "a header has a control character in it";
    if (found.count[CODING] && strcmp(version, MHD_HTTP_VERSION_1_0) == 0)
        return "a body is not chunked in HTTP/1.0";
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
