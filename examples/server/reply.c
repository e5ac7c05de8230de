/* SPDX-License-Identifier: MIT
 *
 * Answers that are there as a whole; see reply.h. */
#include "reply.h"
#include "json.h"

#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

bool reply_begin(struct reply *reply)
{
    reply->text = NULL;
    reply->length = 0;
    reply->file = open_memstream(&reply->text, &reply->length);
    return reply->file != NULL;
}

struct MHD_Response *reply_end(struct reply *reply, const char *type)
{
    struct MHD_Response *response = NULL;
    if (reply->file && fclose(reply->file) == 0)
        response = MHD_create_response_from_buffer(reply->length, reply->text, MHD_RESPMEM_MUST_FREE);
    if (!response)
        free(reply->text);
    else
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    return response;
}

struct MHD_Response *reply_file(int fd, const char *type)
{
    off_t size = lseek(fd, 0, SEEK_END);
    struct MHD_Response *response = size < 0 ? NULL : MHD_create_response_from_fd64((uint64_t)size, fd);
    if (!response)
        close(fd);
    else
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    return response;
}

enum MHD_Result reply_send(struct MHD_Connection *connection, unsigned status, struct MHD_Response *response)
{
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

enum MHD_Result reply_error(struct MHD_Connection *connection, unsigned status, const char *header, const char *value,
                            const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    struct reply reply;
    if (reply_begin(&reply)) {
        fputs("{\"error\":", reply.file);
        json_print_string(reply.file, text);
        fputs("}\n", reply.file);
    }
    struct MHD_Response *response = reply_end(&reply, REPLY_JSON);
    if (response && header)
        MHD_add_response_header(response, header, value);
    return reply_send(connection, status, response);
}
