/* SPDX-License-Identifier: MIT
 *
 * XML documents that are parsed behind a wall, for clients of HTTP; see documents.h. */
#include "documents.h"

#include <errno.h>
#include <libxml/parser.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define BATCH 16
#define CLIENTS 512 /* at once */
#define CLIENT_SECONDS 10
#define LONGEST ((size_t)8 << 20)

/* --- Behind the wall --- */

static unsigned long count_elements(const xmlNode *node)
{
    unsigned long count = 0;
    for (; node != NULL; node = node->next)
        count += node->type == XML_ELEMENT_NODE ? 1 + count_elements(node->children) : 0;
    return count;
}

static int parse(const void *text, size_t size, stint_reply *reply)
{
    char answer[64];
    xmlDoc *document = xmlReadMemory(text, (int)size, "", NULL, XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_HUGE);
    if (document == NULL)
        return EBADMSG;
    int length = snprintf(answer, sizeof answer, "%lu elements\n", count_elements(xmlDocGetRootElement(document)));
    xmlFreeDoc(document);
    return stint_reply_write(reply, answer, (size_t)length);
}

static int warm_up(void *unused)
{
    (void)unused;
    xmlInitParser();
    return 0;
}

/* --- A request: its body comes in pieces; then its connection is suspended until its task has ended. --- */

struct request {
    struct MHD_Connection *client;
    stint_token *token; /* NULL: it has not been submitted */
    bool has_ended;
    stint_outcome outcome;
    bool too_long;
    size_t size;
    char body[LONGEST]; /* of which the system gives what is written to */
};

static enum MHD_Result answer(struct MHD_Connection *client, unsigned status, const char *text, size_t size)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(size, (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    if (response == NULL)
        return MHD_NO;
    enum MHD_Result result = MHD_queue_response(client, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result refuse(struct MHD_Connection *client, unsigned status, const char *why)
{
    return answer(client, status, why, strlen(why));
}

static enum MHD_Result tell(struct MHD_Connection *client, const stint_outcome *outcome)
{
    if (outcome->status == STINT_OK)
        return answer(client, MHD_HTTP_OK, outcome->value, outcome->payload_size);
    return outcome->error == EBADMSG
               ? refuse(client, MHD_HTTP_BAD_REQUEST, "this is no XML\n")
               : refuse(client, MHD_HTTP_UNPROCESSABLE_CONTENT, stint_reason_name(outcome->reason));
}

static int socket_of(const struct request *request)
{
    return MHD_get_connection_info(request->client, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

static enum MHD_Result submit(struct documents *documents, struct request *request)
{
    struct epoll_event gone = { .events = EPOLLRDHUP, .data.ptr = request };
    stint_future *future;
    stint_options options = STINT_OPTIONS_INIT;
    if (stint_token_create(NULL, &request->token) != 0)
        return MHD_NO;
    options.name = "parse";
    options.token = request->token;
    options.completions = documents->completions;
    options.data = request;
    options.budget.memory = (size_t)64 << 20;
    options.budget.wall_ns = UINT64_C(2000000000);
    if (stint_submit_walled(documents->pool, documents->wall, parse, request->body, request->size, &options, &future) !=
        0)
        return refuse(request->client, MHD_HTTP_SERVICE_UNAVAILABLE, "too many wait\n");
    stint_future_release(future); /* the completion brings all that is needed */
    documents->parsing++;
    epoll_ctl(documents->descriptor, EPOLL_CTL_ADD, socket_of(request), &gone);
    MHD_suspend_connection(request->client);
    return MHD_YES;
}

static void append(struct request *request, const char *bytes, size_t size)
{
    request->too_long = request->too_long || size > LONGEST - request->size;
    if (request->too_long)
        return;
    memcpy(request->body + request->size, bytes, size);
    request->size += size;
}

static enum MHD_Result handle(void *documents, struct MHD_Connection *client, const char *path, const char *method,
                              const char *version, const char *piece, size_t *size, void **context)
{
    (void)path, (void)version;
    struct request *request = *context;
    if (request == NULL) {
        *context = request = calloc(1, sizeof *request);
        return request != NULL && (request->client = client) != NULL ? MHD_YES : MHD_NO;
    }
    if (*size > 0) {
        append(request, piece, *size);
        *size = 0;
        return MHD_YES;
    }
    if (request->has_ended)
        return tell(client, &request->outcome);
    if (strcmp(method, MHD_HTTP_METHOD_POST) != 0)
        return refuse(client, MHD_HTTP_METHOD_NOT_ALLOWED, "POST a document\n");
    if (request->too_long || request->size == 0)
        return refuse(client, MHD_HTTP_CONTENT_TOO_LARGE, "a document has from 1 byte to 8 MiB\n");
    return submit(documents, request);
}

static void end_request(void *unused, struct MHD_Connection *client, void **context,
                        enum MHD_RequestTerminationCode code)
{
    (void)unused, (void)client, (void)code;
    struct request *request = *context;
    if (request == NULL)
        return;
    stint_token_release(request->token);
    free(request->outcome.value);
    free(request);
}

/* --- The turns of the loop. --- */

static void end_tasks(struct documents *documents)
{
    stint_completion done[BATCH];
    size_t count;
    do {
        stint_completions_read(documents->completions, done, BATCH, &count);
        for (size_t i = 0; i < count; i++) {
            struct request *request = done[i].data;
            request->outcome = done[i].outcome;
            request->has_ended = true;
            documents->parsing--;
            epoll_ctl(documents->descriptor, EPOLL_CTL_DEL, socket_of(request), NULL);
            MHD_resume_connection(request->client);
        }
    } while (count == BATCH);
}

/* Of a client that has gone: nobody wants the answer. Its socket is watched no more. */
static void cancel(struct documents *documents, const struct request *request)
{
    epoll_ctl(documents->descriptor, EPOLL_CTL_DEL, socket_of(request), NULL);
    stint_token_set(request->token);
}

void documents_turn(struct documents *documents)
{
    struct epoll_event events[BATCH];
    int ready = epoll_wait(documents->descriptor, events, BATCH, 0);
    for (int i = 0; i < ready; i++) {
        if (events[i].data.ptr != documents->server && events[i].data.ptr != documents->completions)
            cancel(documents, events[i].data.ptr);
    }
    end_tasks(documents);
    MHD_run(documents->server);
}

int documents_timeout(const struct documents *documents)
{
    MHD_UNSIGNED_LONG_LONG ms;
    return MHD_get_timeout(documents->server, &ms) == MHD_YES ? (int)(ms < 60000 ? ms : 60000) : -1;
}

static bool watch(struct documents *documents, int descriptor, void *what)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = what };
    return epoll_ctl(documents->descriptor, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

static bool listen_at(struct documents *documents, int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    documents->server = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, handle, documents,
                                         MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_CONNECTION_LIMIT, CLIENTS,
                                         MHD_OPTION_CONNECTION_TIMEOUT, CLIENT_SECONDS, MHD_OPTION_NOTIFY_COMPLETED,
                                         end_request, NULL, MHD_OPTION_END);
    return documents->server != NULL &&
           watch(documents, MHD_get_daemon_info(documents->server, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd,
                 documents->server) &&
           watch(documents, stint_completions_fd(documents->completions), documents->completions);
}

bool documents_open(struct documents *documents, int port)
{
    char message[512] = "";
    stint_wall_options behind = STINT_WALL_OPTIONS_INIT;
    behind.setup = warm_up;
    behind.input_limit = LONGEST;
    behind.message = message;
    behind.message_size = sizeof message;
    int error = stint_wall_create(&behind, &documents->wall); /* first, as it forks */
    if (error != 0 || stint_pool_create(NULL, &documents->pool) != 0 ||
        stint_completions_create(&documents->completions) != 0) {
        fprintf(stderr, "%s\n", error != 0 ? message : "cannot make a pool");
        return false;
    }
    documents->descriptor = epoll_create1(EPOLL_CLOEXEC);
    if (documents->descriptor < 0 || !listen_at(documents, port)) {
        fprintf(stderr, "cannot listen at port %d\n", port);
        return false;
    }
    printf("http://127.0.0.1:%d/\n", MHD_get_daemon_info(documents->server, MHD_DAEMON_INFO_BIND_PORT)->port);
    fflush(stdout);
    return true;
}

void documents_end(struct documents *documents)
{
    int listening = MHD_quiesce_daemon(documents->server);
    if (listening >= 0)
        close(listening);
}

void documents_close(struct documents *documents)
{
    MHD_stop_daemon(documents->server);
    close(documents->descriptor);
    stint_completions_destroy(documents->completions);
    stint_pool_destroy(documents->pool);
    stint_wall_destroy(documents->wall);
}
