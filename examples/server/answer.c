/* SPDX-License-Identifier: MIT
 *
 * The answer to a query; see answer.h. */
#include "answer.h"
#include "client.h"
#include "reply.h"
#include "rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 16384
#define RETRY_AFTER "1"

/* What it took */

typedef enum MHD_Result add_fn(struct MHD_Response *response, const char *header, const char *content);

/* An unbounded query has its time only. */
static void add_usage(const struct request *request, struct MHD_Response *response, add_fn *add)
{
    const stint_usage *usage = &request->outcome.usage;
    char text[32];
    if (request->server->pool) {
        snprintf(text, sizeof text, "%" PRIu64, usage->peak);
        add(response, "Stint-Memory-Used", text);
        snprintf(text, sizeof text, "%" PRIu64, usage->allocated);
        add(response, "Stint-Allocation-Used", text);
    }
    snprintf(text, sizeof text, "%" PRIu64 "us", (usage->queued_ns + usage->wall_ns) / 1000);
    add(response, "Stint-Time-Used", text);
}

static void add_number(const struct request *request, struct MHD_Response *response)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, request->id);
    MHD_add_response_header(response, "Stint-Query", text);
}

/* Chunks on their way out */

static struct chunk *next_chunk(struct request *request)
{
    struct chunk *chunk = channel_take(&request->channel);
    if (!chunk && request->resolved) {
        chunk = request->channel.filling;
        request->channel.filling = NULL;
    }
    return chunk;
}

/* Of the present chunk, or the next; 0: there is nothing now. */
static size_t copy_some(struct request *request, char *to, size_t room)
{
    if (!request->sending)
        request->sending = next_chunk(request);
    if (!request->sending)
        return 0;
    size_t left = request->sending->length - request->sent;
    size_t length = left < room ? left : room;
    memcpy(to, request->sending->bytes + request->sent, length);
    request->sent += length;
    if (request->sent == request->sending->length) {
        free(request->sending);
        request->sending = NULL;
        request->sent = 0;
    }
    return length;
}

static void pause_sending(struct request *request)
{
    request->suspended = true;
    MHD_suspend_connection(request->connection);
}

static void resume(struct request *request)
{
    if (request->suspended)
        MHD_resume_connection(request->connection);
    request->suspended = false;
}

static ssize_t end_stream(struct request *request)
{
    if (request->broken)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (request->streaming)
        add_usage(request, request->response, MHD_add_response_footer);
    return MHD_CONTENT_READER_END_OF_STREAM;
}

/* What MHD calls when there is room in the socket. */
static ssize_t read_answer(void *argument, uint64_t position, char *to, size_t room)
{
    (void)position;
    struct request *request = argument;
    size_t length = copy_some(request, to, room);
    if (length)
        return (ssize_t)length;
    if (request->resolved)
        return end_stream(request);
    pause_sending(request);
    return 0;
}

static struct MHD_Response *describe(const struct request *request, struct MHD_Response *response)
{
    if (response) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, rows_type(request->record.format));
        MHD_add_response_header(response, MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ACCEPT);
        add_number(request, response);
    }
    return response;
}

static struct MHD_Response *create_response(struct request *request, uint64_t length)
{
    return describe(request, MHD_create_response_from_callback(length, BLOCK, read_answer, request, NULL));
}

/* Of what a walled query has answered, which goes with the response. */
static struct MHD_Response *create_response_of_reply(struct request *request)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(request->reply_length, request->reply, MHD_RESPMEM_MUST_FREE);
    if (response)
        request->reply = NULL;
    return describe(request, response);
}

/* Without memory for an answer the connection is closed: nothing can be said. */
static void send_response(struct request *request, unsigned status, struct MHD_Response *response)
{
    if (reply_send(request->connection, status, response) != MHD_YES)
        client_shut(request->client);
    resume(request);
}

/* Those that are whole */

static void send_rows(struct request *request)
{
    struct MHD_Response *response = request->reply ? create_response_of_reply(request)
                                                   : create_response(request, channel_length(&request->channel));
    if (response)
        add_usage(request, response, MHD_add_response_header);
    send_response(request, MHD_HTTP_OK, response);
}

static void send_verdict(struct request *request)
{
    const struct verdict *verdict = &request->verdict;
    struct reply reply;
    if (reply_begin(&reply)) {
        verdict_print(reply.file, verdict);
        fputc('\n', reply.file);
    }
    struct MHD_Response *response = reply_end(&reply, REPLY_JSON);
    if (response) {
        add_number(request, response);
        add_usage(request, response, MHD_add_response_header);
        if (verdict->retry)
            MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, RETRY_AFTER);
    }
    send_response(request, verdict->status, response);
}

/* Those that are streamed */

/* The rows that were whole, and what stopped the others. Where the last row has gone out in part there is no place for
 * it. */
static void end_broken(struct request *request)
{
    struct channel *channel = &request->channel;
    bool between_rows = channel->whole > 0 || !channel->in_row;
    struct reply reply;
    request->broken = true;
    if (request->record.format == ROWS_JSON && between_rows && reply_begin(&reply)) {
        fputs("\n],\"error\":", reply.file);
        verdict_print(reply.file, &request->verdict);
        fputs("}\n", reply.file);
        struct chunk *last = fclose(reply.file) ? NULL : malloc(sizeof *last + channel->whole + reply.length);
        if (last) {
            last->length = channel->whole + reply.length;
            if (channel->whole)
                memcpy(last->bytes, channel->filling->bytes, channel->whole);
            memcpy(last->bytes + channel->whole, reply.text, reply.length);
        }
        free(reply.text);
        free(channel->filling);
        channel->filling = last;
    }
}

static void begin_stream(struct request *request)
{
    request->response = create_response(request, MHD_SIZE_UNKNOWN);
    request->streaming = true;
    if (request->response)
        MHD_add_response_header(request->response, MHD_HTTP_HEADER_TRAILER,
                                "Stint-Memory-Used, Stint-Allocation-Used, Stint-Time-Used");
    atomic_store_explicit(&request->channel.streaming, true, memory_order_release);
    send_response(request, MHD_HTTP_OK, request->response);
}

/* What happens */

void answer_wait(struct request *request)
{
    pause_sending(request);
}

void answer_resolved(struct request *request)
{
    bool ok = request->verdict.kind == VERDICT_OK;
    if (request->streaming) {
        if (!ok)
            end_broken(request);
        resume(request);
    } else if (ok) {
        send_rows(request);
    } else {
        send_verdict(request);
    }
    client_time(request->client);
}

void answer_has_more(struct request *request)
{
    if (!request->streaming)
        begin_stream(request);
    else
        resume(request);
}
