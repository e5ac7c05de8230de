/* SPDX-License-Identifier: MIT
 *
 * The paths of the server; see http.h. */
#include "http.h"
#include "accept.h"
#include "client.h"
#include "debug.h"
#include "page.h"
#include "reply.h"
#include "request.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Of a body without a length that is too long so much is read before the connection is closed: a client that has sent
 * less gets its answer. */
#define OVERFLOW_FACTOR 16
#define BEARER "Bearer "

static const char *header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

/* The key in Authorization: Bearer KEY; NULL: there is none. */
static const char *key_of(struct MHD_Connection *connection)
{
    const char *value = header(connection, MHD_HTTP_HEADER_AUTHORIZATION);
    return value && strncasecmp(value, BEARER, strlen(BEARER)) == 0 ? value + strlen(BEARER) : NULL;
}

static enum MHD_Result refuse_key(struct MHD_Connection *connection)
{
    return reply_error(connection, MHD_HTTP_UNAUTHORIZED, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer",
                       "a valid key is needed: Authorization: Bearer KEY");
}

/* Where a request comes from */

/* localhost, 127.0.0.1 or another one of its net, or [::1], with a port or without. */
static bool is_name_of_loopback(const char *host)
{
    size_t length = strncmp(host, "[::1]", 5) == 0           ? 5
                    : strncmp(host, "127.", 4) == 0          ? strspn(host, "0123456789.")
                    : strncasecmp(host, "localhost", 9) == 0 ? 9
                                                             : 0;
    return length && (!host[length] || host[length] == ':');
}

/* A browser says which site's page has made it ask. */
static bool is_origin_of(const char *origin, const char *host)
{
    const char *scheme = strstr(origin, "://");
    return scheme && host && strcasecmp(scheme + 3, host) == 0;
}

/* Where no key is asked for, any site's page in a browser of this machine could ask: here, or by a name of its own that
 * it has lead here. */
static bool is_of_another_site(struct MHD_Connection *connection, const struct client *client)
{
    const char *host = header(connection, MHD_HTTP_HEADER_HOST);
    const char *origin = header(connection, MHD_HTTP_HEADER_ORIGIN);
    const char *site = header(connection, "Sec-Fetch-Site");
    return (client->loopback && host && !is_name_of_loopback(host)) || (origin && !is_origin_of(origin, host)) ||
           (site && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0);
}

/* What a proxy of this machine has handed on comes from anywhere. */
static bool is_from_here(struct MHD_Connection *connection, const struct client *client)
{
    return client->loopback && !header(connection, "Forwarded") && !header(connection, "X-Forwarded-For") &&
           !header(connection, "Via") && !is_of_another_site(connection, client);
}

/* Queries */

/* A header may lower a limit; 0 is none. */
static bool is_less(uint64_t wish, uint64_t limit)
{
    return limit == 0 || (wish != 0 && wish <= limit);
}

static const char *lower_size(struct MHD_Connection *connection, const char *name, size_t *limit)
{
    const char *value = header(connection, name);
    size_t wish;
    if (value && (!text_read_size(value, &wish) || !is_less(wish, *limit)))
        return name;
    if (value)
        *limit = wish;
    return NULL;
}

static const char *lower_time(struct MHD_Connection *connection, const char *name, uint64_t *limit)
{
    const char *value = header(connection, name);
    uint64_t wish;
    if (value && (!text_read_duration(value, &wish) || !is_less(wish, *limit)))
        return name;
    if (value)
        *limit = wish;
    return NULL;
}

/* NULL; or the name of the header that is not good. */
static const char *lower_budget(struct MHD_Connection *connection, stint_budget *budget)
{
    const char *wrong = lower_size(connection, "Stint-Memory", &budget->memory);
    if (!wrong)
        wrong = lower_size(connection, "Stint-Allocation", &budget->allocation);
    return wrong ? wrong : lower_time(connection, "Stint-Timeout", &budget->wall_ns);
}

static bool is_length_too_great(struct MHD_Connection *connection, size_t most)
{
    const char *value = header(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return value && strtoull(value, NULL, 10) > most;
}

static enum MHD_Result refuse_length(struct server *server, struct MHD_Connection *connection)
{
    return reply_error(connection, MHD_HTTP_CONTENT_TOO_LARGE, NULL, NULL, "a statement may have at most %zu bytes",
                       server->options->statement);
}

/* The headers are there, the body is not: what can be refused is refused before it is sent. */
static enum MHD_Result begin_query(struct server *server, struct MHD_Connection *connection, struct client *client,
                                   void **context)
{
    stint_account *account = tenants_find(server->tenants, key_of(connection), client->account);
    rows_format format;
    if (!account)
        return refuse_key(connection);
    if (tenants_need_no_key(server->tenants) && is_of_another_site(connection, client))
        return reply_error(
            connection, MHD_HTTP_FORBIDDEN, NULL, NULL,
            "another site's page may not ask without a key: the origin must be the host, and on this machine "
            "the host must be localhost");
    if (is_length_too_great(connection, server->options->statement))
        return refuse_length(server, connection);
    if (!accept_choose(header(connection, MHD_HTTP_HEADER_ACCEPT), &format))
        return reply_error(connection, MHD_HTTP_NOT_ACCEPTABLE, NULL, NULL,
                           "the answer can be application/json or text/csv");
    struct request *request = request_create(server, connection, client, account);
    if (!request)
        return MHD_NO;
    request->record.format = format;
    client->request = *context = request;
    const char *wrong = lower_budget(connection, &request->budget);
    return wrong ? reply_error(connection, MHD_HTTP_BAD_REQUEST, NULL, NULL,
                               "%s: malformed, or more than the server allows", wrong)
                 : MHD_YES;
}

static enum MHD_Result go_on_with_query(struct request *request, const char *bytes, size_t *length)
{
    struct server *server = request->server;
    if (*length) {
        bool good = request_append(request, bytes, *length);
        request->received += *length;
        *length = 0;
        return good && request->received / OVERFLOW_FACTOR <= server->options->statement ? MHD_YES : MHD_NO;
    }
    if (request->too_long)
        return refuse_length(server, request->connection);
    if (!request_append(request, "", 0))
        return MHD_NO;
    if (strlen(request->body) < request->length)
        return reply_error(request->connection, MHD_HTTP_BAD_REQUEST, NULL, NULL,
                           "a statement must not contain zero bytes");
    client_leave_time(request->client);
    request_submit(request);
    /* It closed its side before its request was read: that is told once. */
    if (request->client->gone)
        request_cancel(request);
    return MHD_YES;
}

/* All else */

typedef enum MHD_Result handle_fn(struct server *server, struct MHD_Connection *connection, const char *rest);

static struct request *find_running(struct server *server, const char *number)
{
    char *end;
    uint64_t id = strtoull(number, &end, 10);
    return *number && !*end && server->pool ? request_find(server, id) : NULL;
}

static enum MHD_Result reply_nothing(struct MHD_Connection *connection)
{
    return reply_send(connection, MHD_HTTP_NO_CONTENT,
                      MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT));
}

static enum MHD_Result handle_cancel(struct server *server, struct MHD_Connection *connection, const char *rest)
{
    struct request *request = find_running(server, rest);
    if (!request)
        return reply_error(connection, MHD_HTTP_NOT_FOUND, NULL, NULL, "no such query is running");
    request_cancel(request);
    return reply_nothing(connection);
}

static enum MHD_Result handle_extend(struct server *server, struct MHD_Connection *connection, const char *rest)
{
    struct request *request = find_running(server, rest);
    if (!request)
        return reply_error(connection, MHD_HTTP_NOT_FOUND, NULL, NULL, "no such query is running");
    if (request_extend(request) != 0)
        return reply_error(connection, MHD_HTTP_CONFLICT, NULL, NULL,
                           "the query was stopped already, or has no time limit");
    return reply_nothing(connection);
}

static const struct route {
    const char *method;
    const char *path; /* what ends with a slash has something behind it */
    bool private;     /* for loopback, or with the page's key */
    handle_fn *handle;
} routes[] = {
    { MHD_HTTP_METHOD_GET, "/", true, page_handle },
    { MHD_HTTP_METHOD_GET, "/events", true, page_handle_events },
    { MHD_HTTP_METHOD_POST, "/cancel/", true, handle_cancel },
    { MHD_HTTP_METHOD_POST, "/extend/", true, handle_extend },
    { MHD_HTTP_METHOD_GET, "/metrics", false, debug_handle_metrics },
    { MHD_HTTP_METHOD_GET, "/debug/stopped", true, debug_handle_stopped },
    { MHD_HTTP_METHOD_GET, "/debug/pprof/heap", true, debug_handle_profile },
    { MHD_HTTP_METHOD_GET, "/debug/pprof/allocs", true, debug_handle_profile },
};

static const char *match(const struct route *route, const char *path)
{
    size_t length = strlen(route->path);
    bool prefix = length > 1 && route->path[length - 1] == '/';
    if (strncmp(path, route->path, length) != 0 || (!prefix && path[length]))
        return NULL;
    return path + length;
}

static bool may_see(const struct server *server, struct MHD_Connection *connection, const struct client *client)
{
    if (!server->page_key)
        return is_from_here(connection, client);
    const char *key = key_of(connection);
    if (!key)
        key = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "key");
    return key && tenants_keys_equal(key, server->page_key);
}

static enum MHD_Result follow(struct server *server, struct MHD_Connection *connection, const struct client *client,
                              const struct route *route, const char *method, const char *rest)
{
    bool head = strcmp(method, MHD_HTTP_METHOD_HEAD) == 0 && strcmp(route->method, MHD_HTTP_METHOD_GET) == 0;
    if (strcmp(method, route->method) != 0 && !head)
        return reply_error(connection, MHD_HTTP_METHOD_NOT_ALLOWED, MHD_HTTP_HEADER_ALLOW, route->method,
                           "%s needs the method %s", route->path, route->method);
    if (route->private && !may_see(server, connection, client))
        return server->page_key ? refuse_key(connection)
                                : reply_error(connection, MHD_HTTP_FORBIDDEN, NULL, NULL,
                                              "without --page-key only this machine may ask");
    return route->handle(server, connection, rest);
}

static enum MHD_Result begin(struct server *server, struct MHD_Connection *connection, const char *path,
                             const char *method, void **context)
{
    struct client *client = client_of(connection);
    /* Without memory for the client, or were this not the recv that is called, nobody has looked at what it sent. */
    if (!client || client->framing.heads == 0)
        return MHD_NO;
    if (strcmp(path, "/query") == 0) {
        return strcmp(method, MHD_HTTP_METHOD_POST) == 0
                   ? begin_query(server, connection, client, context)
                   : reply_error(connection, MHD_HTTP_METHOD_NOT_ALLOWED, MHD_HTTP_HEADER_ALLOW, MHD_HTTP_METHOD_POST,
                                 "/query is for POST, with the statement as the body");
    }
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        const char *rest = match(&routes[i], path);
        if (rest)
            return follow(server, connection, client, &routes[i], method, rest);
    }
    return reply_error(connection, MHD_HTTP_NOT_FOUND, NULL, NULL, "nothing has this path");
}

enum MHD_Result http_handle(void *server, struct MHD_Connection *connection, const char *path, const char *method,
                            const char *version, const char *bytes, size_t *length, void **context)
{
    (void)version;
    return *context ? go_on_with_query(*context, bytes, length) : begin(server, connection, path, method, context);
}

void http_completed(void *server, struct MHD_Connection *connection, void **context,
                    enum MHD_RequestTerminationCode code)
{
    (void)server;
    struct client *client = client_of(connection);
    if (client) {
        client->request = NULL;
        client_time(client);
        if (code != MHD_REQUEST_TERMINATED_COMPLETED_OK)
            client_fail(client);
    }
    if (*context)
        request_leave(*context);
    *context = NULL;
}
