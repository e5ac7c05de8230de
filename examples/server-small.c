/* SPDX-License-Identifier: MIT
 *
 * server-small [PORT]: a server in two hundred lines. Whoever posts an XML document is told how many elements it has:
 *
 *     curl --data-binary @document.xml http://127.0.0.1:8080/
 *
 * Each document is parsed behind a wall, with a budget: it may take 64 MiB and two seconds, and may do to its parser
 * what it likes. A client that goes away has its parse stopped. libmicrohttpd has a thread for each connection here,
 * which waits for the task; examples/loops/documents.c is the same in an event loop, which needs none. SIGTERM and
 * SIGINT end it. */
#include <errno.h>
#include <libxml/parser.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <stint/stint.h>
#include <string.h>

#define PORT 8080
#define CLIENTS 64 /* at once */
#define CLIENT_SECONDS 10
#define LONGEST ((size_t)8 << 20)
#define LOOK_NS UINT64_C(50000000) /* between two looks whether the client is still there */

static stint_pool *pool;
static stint_wall *wall;

/* --- Behind the wall: a crash, a loop or a bomb in here ends its own process. --- */

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

/* Once, before the first document: what libxml2 makes at its first use is there then for all children. */
static int warm_up(void *unused)
{
    (void)unused;
    xmlInitParser();
    return 0;
}

/* --- A request. --- */

struct request {
    size_t size;
    bool too_long;
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

static void wait_for(stint_future *future, stint_token *token, struct MHD_Connection *client, stint_outcome *outcome)
{
    struct pollfd socket = { .events = POLLRDHUP };
    socket.fd = MHD_get_connection_info(client, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    while (stint_future_wait_for(future, LOOK_NS, outcome) == ETIMEDOUT) {
        if (poll(&socket, 1, 0) > 0)
            stint_token_set(token); /* it has gone */
    }
}

static enum MHD_Result tell(struct MHD_Connection *client, const stint_outcome *outcome)
{
    if (outcome->status != STINT_OK)
        return outcome->error == EBADMSG
                   ? refuse(client, MHD_HTTP_BAD_REQUEST, "this is no XML\n")
                   : refuse(client, MHD_HTTP_UNPROCESSABLE_CONTENT, stint_reason_name(outcome->reason));
    enum MHD_Result result = answer(client, MHD_HTTP_OK, outcome->value, outcome->payload_size);
    free(outcome->value);
    return result;
}

static enum MHD_Result run(struct MHD_Connection *client, const struct request *request)
{
    stint_token *token;
    stint_future *future;
    stint_outcome outcome;
    stint_options options = STINT_OPTIONS_INIT;
    if (stint_token_create(NULL, &token) != 0)
        return MHD_NO;
    options.name = "parse";
    options.token = token;
    options.budget.memory = (size_t)64 << 20;
    options.budget.wall_ns = UINT64_C(2000000000); /* from now on: who waits in the queue waits, too */
    int error = stint_submit_walled(pool, wall, parse, request->body, request->size, &options, &future);
    if (error == 0) {
        wait_for(future, token, client, &outcome);
        stint_future_release(future);
    }
    stint_token_release(token);
    return error == 0 ? tell(client, &outcome) : refuse(client, MHD_HTTP_SERVICE_UNAVAILABLE, "too many wait\n");
}

static void append(struct request *request, const char *bytes, size_t size)
{
    request->too_long = request->too_long || size > LONGEST - request->size;
    if (request->too_long)
        return;
    memcpy(request->body + request->size, bytes, size);
    request->size += size;
}

/* MHD calls it when the head is there, with each piece of the body, and at the end. */
static enum MHD_Result handle(void *unused, struct MHD_Connection *client, const char *path, const char *method,
                              const char *version, const char *piece, size_t *size, void **context)
{
    (void)unused, (void)path, (void)version;
    struct request *request = *context;
    if (request == NULL)
        return (*context = calloc(1, sizeof *request)) != NULL ? MHD_YES : MHD_NO;
    if (*size > 0) {
        append(request, piece, *size);
        *size = 0;
        return MHD_YES;
    }
    if (strcmp(method, MHD_HTTP_METHOD_POST) != 0)
        return refuse(client, MHD_HTTP_METHOD_NOT_ALLOWED, "POST a document\n");
    if (request->too_long || request->size == 0)
        return refuse(client, MHD_HTTP_CONTENT_TOO_LARGE, "a document has from 1 byte to 8 MiB\n");
    return run(client, request);
}

static void end_request(void *unused, struct MHD_Connection *client, void **context,
                        enum MHD_RequestTerminationCode code)
{
    (void)unused, (void)client, (void)code;
    free(*context);
}

int main(int argc, char **argv)
{
    int port = argc > 1 ? atoi(argv[1]) : PORT;
    char message[512] = "";
    stint_wall_options behind = STINT_WALL_OPTIONS_INIT;
    behind.setup = warm_up;
    behind.input_limit = LONGEST;
    behind.message = message;
    behind.message_size = sizeof message;
    /* The wall first, as it forks; then pool, server and whatever else has threads. */
    int error = stint_wall_create(&behind, &wall);
    if (error != 0 || stint_pool_create(NULL, &pool) != 0) {
        fprintf(stderr, "server-small: %s\n", error != 0 ? message : "cannot make a pool");
        return 1;
    }
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ends, NULL); /* for all threads: main waits for them */
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct MHD_Daemon *server = MHD_start_daemon(
        MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, handle, NULL,
        MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_CONNECTION_LIMIT, CLIENTS, MHD_OPTION_CONNECTION_TIMEOUT,
        CLIENT_SECONDS, MHD_OPTION_NOTIFY_COMPLETED, end_request, NULL, MHD_OPTION_END);
    if (server == NULL) {
        fprintf(stderr, "server-small: cannot listen at port %d\n", port);
        return 1;
    }
    printf("http://127.0.0.1:%d/\n", MHD_get_daemon_info(server, MHD_DAEMON_INFO_BIND_PORT)->port);
    fflush(stdout);
    sigwait(&ends, &port);
    MHD_stop_daemon(server); /* when what runs has been answered */
    stint_pool_destroy(pool);
    stint_wall_destroy(wall);
    return 0;
}
