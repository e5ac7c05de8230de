/* SPDX-License-Identifier: MIT
 *
 * Answers that are there as a whole, and what all answers have in common. The loop's. */
#ifndef SERVER_REPLY_H
#define SERVER_REPLY_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stdio.h>

#define REPLY_JSON "application/json"
#define REPLY_METRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* A text under way to its client, written like a file. It must stay where it is until it ends. */
struct reply {
    FILE *file; /* NULL: out of memory */
    char *text;
    size_t length;
};

/* False: out of memory; the file is then NULL. */
bool reply_begin(struct reply *reply);

/* The response with what has been written, of this type; NULL: out of memory. */
struct MHD_Response *reply_end(struct reply *reply, const char *type);

/* A response of a file's contents, from its beginning, which closes it; NULL: out of memory, and it is closed. */
struct MHD_Response *reply_file(int fd, const char *type);

/* Queue a response (NULL: close the connection) and let go of it. */
enum MHD_Result reply_send(struct MHD_Connection *connection, unsigned status, struct MHD_Response *response);

/* {"error":"..."} with a status; header and value may be NULL. */
enum MHD_Result reply_error(struct MHD_Connection *connection, unsigned status, const char *header, const char *value,
                            const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif
