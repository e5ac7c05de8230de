/* SPDX-License-Identifier: MIT
 *
 * The connection to the servers; see bus.h. The client calls back on threads of its own. */
#include "bus.h"
#include "text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RECONNECT_MS 250
#define REQUEST_MS 5000
#define PING_MS 10000 /* two that stay unanswered: the connection is lost */

void bus_say(const struct bus *bus, const char *format, ...)
{
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    /* Names of jobs are others' words, and could steer a terminal. */
    char *clean = text_clean(line, true);
    fprintf(stderr, "%s: %s\n", bus->program, clean ? clean : "out of memory");
    free(clean);
}

/* The addresses of a list of URLs: without users, passwords and tokens, which are nobody's who reads a log. */
static char *addresses_of(const char *list)
{
    char *copy = strdup(list), *to = copy;
    for (const char *from = list; copy && *from;) {
        size_t length = strcspn(from, ",");
        const char *next = from + length + (from[length] == ',');
        const char *at = memrchr(from, '@', length);
        const char *scheme = at ? memmem(from, (size_t)(at - from), "://", 3) : NULL;
        const char *host = at ? at + 1 : from;
        if (scheme)
            to = mempcpy(to, from, (size_t)(scheme + 3 - from));
        to = mempcpy(to, host, (size_t)(next - host));
        from = next;
    }
    if (copy)
        *to = 0;
    return copy;
}

const char *bus_error(natsStatus status)
{
    natsStatus last = NATS_OK;
    const char *words = nats_GetLastError(&last);
    if (!words || !words[0] || last != status)
        return natsStatus_GetText(status);
    const char *place = words[0] == '(' ? strstr(words, "): ") : NULL; /* of the client's source, in front */
    return place ? place + 3 : words;
}

static void on_disconnected(natsConnection *connection, void *closure)
{
    (void)connection;
    struct bus *bus = closure;
    if (atomic_exchange(&bus->connected, false) && !atomic_load(&bus->closing))
        bus_say(bus, "the connection is lost; connecting again");
}

static void on_reconnected(natsConnection *connection, void *closure)
{
    struct bus *bus = closure;
    char room[512];
    bool named = natsConnection_GetConnectedUrl(connection, room, sizeof room) == NATS_OK;
    char *address = named ? addresses_of(room) : NULL;
    atomic_store(&bus->connected, true);
    atomic_fetch_add(&bus->reconnects, 1);
    bus_say(bus, "connected again, to %s", address ? address : "a server");
    free(address);
}

static void on_closed(natsConnection *connection, void *closure)
{
    (void)connection;
    struct bus *bus = closure;
    atomic_store(&bus->connected, false);
    atomic_store(&bus->closed, true);
}

/* What comes at no call's time: a permission that is missing, a subscription that is too slow. */
static void on_error(natsConnection *connection, natsSubscription *subscription, natsStatus error, void *closure)
{
    (void)subscription;
    const char *words = NULL;
    if (natsConnection_GetLastError(connection, &words) == NATS_OK || !words || !words[0])
        words = natsStatus_GetText(error);
    bus_say(closure, "%s", words);
}

static natsStatus set_servers(natsOptions *options, const char *list)
{
    const char *servers[BUS_SERVERS_MAX];
    int count = 0;
    char *copy = strdup(list), *rest = copy, *server;
    if (!copy)
        return NATS_NO_MEMORY;
    while ((server = strsep(&rest, ",")) && count < BUS_SERVERS_MAX) {
        if (server[0])
            servers[count++] = server;
    }
    natsStatus status = natsOptions_SetServers(options, servers, count);
    free(copy);
    return status;
}

static natsStatus set_callbacks(natsOptions *options, struct bus *bus)
{
    natsStatus status = natsOptions_SetDisconnectedCB(options, on_disconnected, bus);
    if (status == NATS_OK)
        status = natsOptions_SetReconnectedCB(options, on_reconnected, bus);
    if (status == NATS_OK)
        status = natsOptions_SetClosedCB(options, on_closed, bus);
    if (status == NATS_OK)
        status = natsOptions_SetErrorHandler(options, on_error, bus);
    return status;
}

static natsStatus set_all(natsOptions *options, struct bus *bus, const bus_options *wanted)
{
    natsStatus status = set_servers(options, wanted->servers);
    if (status == NATS_OK && wanted->creds)
        status = natsOptions_SetUserCredentialsFromFiles(options, wanted->creds, NULL);
    if (status == NATS_OK && wanted->tls_ca)
        status = natsOptions_SetSecure(options, true);
    if (status == NATS_OK && wanted->tls_ca)
        status = natsOptions_LoadCATrustedCertificates(options, wanted->tls_ca);
    if (status == NATS_OK)
        status = natsOptions_SetName(options, wanted->program);
    if (status == NATS_OK)
        status = natsOptions_SetMaxReconnect(options, -1);
    if (status == NATS_OK)
        status = natsOptions_SetReconnectWait(options, RECONNECT_MS);
    if (status == NATS_OK)
        status = natsOptions_SetPingInterval(options, PING_MS);
    /* Else a request that was under way when a connection was lost would wait for its time-out. */
    if (status == NATS_OK)
        status = natsOptions_SetFailRequestsOnDisconnect(options, true);
    /* Acks and requests wait for nothing. */
    if (status == NATS_OK)
        status = natsOptions_SetSendAsap(options, true);
    if (status == NATS_OK)
        status = set_callbacks(options, bus);
    return status;
}

static bool readable(const struct bus *bus, const char *file)
{
    if (!file || access(file, R_OK) == 0)
        return true;
    bus_say(bus, "%s: %s", file, strerror(errno));
    return false;
}

static void say_unconnected(const struct bus *bus, const char *servers, natsStatus status)
{
    char *addresses = addresses_of(servers);
    if (!addresses)
        bus_say(bus, "out of memory");
    else if (status == NATS_NO_SERVER)
        bus_say(bus, "no server answers at %s", addresses);
    else if (status == NATS_CONNECTION_AUTH_FAILED)
        bus_say(bus, "the server refuses the credentials: %s", bus_error(status));
    else
        bus_say(bus, "cannot connect to %s: %s", addresses, bus_error(status));
    free(addresses);
}

bool bus_open(struct bus *bus, const bus_options *wanted)
{
    *bus = (struct bus){ .program = wanted->program };
    if (!readable(bus, wanted->creds) || !readable(bus, wanted->tls_ca))
        return false;
    natsOptions *options = NULL;
    natsStatus status = natsOptions_Create(&options);
    if (status == NATS_OK)
        status = set_all(options, bus, wanted);
    if (status == NATS_OK)
        status = natsConnection_Connect(&bus->connection, options);
    natsOptions_Destroy(options);
    if (status != NATS_OK) {
        say_unconnected(bus, wanted->servers, status);
        return false;
    }
    atomic_store(&bus->connected, true);
    jsOptions js;
    jsOptions_Init(&js);
    js.Wait = REQUEST_MS;
    status = natsConnection_JetStream(&bus->js, bus->connection, &js);
    if (status != NATS_OK) {
        bus_say(bus, "%s", bus_error(status));
        bus_close(bus);
    }
    return status == NATS_OK;
}

void bus_close(struct bus *bus)
{
    atomic_store(&bus->closing, true);
    jsCtx_Destroy(bus->js);
    natsConnection_Destroy(bus->connection);
    nats_CloseAndWait(0); /* no callback may come once what it is given has gone */
}

size_t bus_most_bytes(const struct bus *bus, size_t headers)
{
    int64_t most = natsConnection_GetMaxPayload(bus->connection);
    return most > (int64_t)headers ? (size_t)most - headers : 0;
}
