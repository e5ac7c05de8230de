/* SPDX-License-Identifier: MIT
 *
 * A client; see client.h. */
#include "client.h"
#include "clock.h"
#include "incoming.h"
#include "page.h"
#include "request.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 == 127;
    const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    return address->sa_family == AF_INET6 &&
           (IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127));
}

/* As an IPv6 address; of one of these a household has all that differ in their last 64 bits. */
static void note_address(struct client *client, const struct sockaddr *address)
{
    struct in6_addr six = IN6ADDR_ANY_INIT;
    if (address->sa_family == AF_INET) {
        six.s6_addr[10] = six.s6_addr[11] = 0xff;
        memcpy(&six.s6_addr[12], &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
    } else if (address->sa_family == AF_INET6) {
        six = ((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    }
    memcpy(client->address, &six, sizeof client->address);
    if (!IN6_IS_ADDR_V4MAPPED(&six))
        memset(&client->address[8], 0, 8);
}

/* It has closed its side, or both: who only closed the sending one is taken for gone, as the two cannot be told apart
 * before something is sent. */
static void hang_up(struct watch *watch)
{
    struct client *client = (struct client *)(void *)watch;
    if (client->framing.fault)
        return; /* it was the server that has closed this side */
    client->gone = true;
    if (client->request)
        request_cancel(client->request);
    if (client->listener)
        page_drop(client->listener);
}

static void begin(struct server *server, struct MHD_Connection *connection, void **context)
{
    int socket = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    struct client *client = calloc(1, sizeof *client);
    if (client && !incoming_watch(socket, &client->framing)) {
        free(client);
        client = NULL;
    }
    *context = client;
    if (!client)
        return;
    client->watch.ready = hang_up;
    client->server = server;
    client->connection = connection;
    client->socket = socket;
    const struct sockaddr *address =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr;
    client->loopback = is_loopback(address);
    note_address(client, address);
    client->account = tenants_of_address(server->tenants, client->address);
    client->next = server->clients;
    client->link = &server->clients;
    if (client->next)
        client->next->link = &client->next;
    server->clients = client;
    server->client_count++;
    client_time(client);
    struct epoll_event event = { .events = EPOLLRDHUP | EPOLLET, .data.ptr = &client->watch };
    /* Without it the query of one that hangs up is stopped when its answer cannot be sent. */
    epoll_ctl(server->poll, EPOLL_CTL_ADD, client->socket, &event);
}

static void end(struct client *client)
{
    struct server *server = client->server;
    incoming_forget(client->socket);
    *client->link = client->next;
    if (client->next)
        client->next->link = client->link;
    server->client_count--;
    client->request = NULL;
    client->listener = NULL;
    client->next = server->dead_clients;
    server->dead_clients = client;
}

void client_notify(void *server, struct MHD_Connection *connection, void **context,
                   enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        begin(server, connection, context);
    else if (*context)
        end(*context);
}

struct client *client_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

void client_time(struct client *client)
{
    client->since_ns = clock_now();
}

void client_leave_time(struct client *client)
{
    client->since_ns = 0;
}

void client_shut(struct client *client)
{
    shutdown(client->socket, SHUT_RDWR);
}

void client_fail(struct client *client)
{
    client->failed = true;
}

/* libmicrohttpd (0.9.75) may find a connection broken while that is not among those that it watches, and then looks at
 * it at its time-out only; at one that has a time-out of its own it looks each time. */
static void have_looked_at(const struct client *client)
{
    MHD_set_connection_option(client->connection, MHD_CONNECTION_OPTION_TIMEOUT, 1U);
}

void clients_sweep(struct server *server)
{
    uint64_t now = clock_now();
    for (struct client *client = server->clients; client; client = client->next) {
        if (client->failed)
            have_looked_at(client);
        if (client->gone && client->since_ns)
            shutdown(client->socket,
                     SHUT_RD); /* libmicrohttpd, too, is told once, and may have had more to read then */
        if (client->since_ns && now - client->since_ns > server->options->idle_ns) {
            client->since_ns = 0;
            client_shut(client);
        }
    }
}

void clients_bury(struct server *server)
{
    while (server->dead_clients) {
        struct client *client = server->dead_clients;
        server->dead_clients = client->next;
        stint_account_release(client->account);
        free(client);
    }
}
