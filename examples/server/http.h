/* SPDX-License-Identifier: MIT
 *
 * The paths of the server, who may ask for them, and what is read from a request's headers. The loop's. */
#ifndef SERVER_HTTP_H
#define SERVER_HTTP_H

#include <microhttpd.h>

/* What MHD wants; their argument is the server. */
enum MHD_Result http_handle(void *server, struct MHD_Connection *connection, const char *path, const char *method,
                            const char *version, const char *bytes, size_t *length, void **context);
void http_completed(void *server, struct MHD_Connection *connection, void **context,
                    enum MHD_RequestTerminationCode code);

#endif
