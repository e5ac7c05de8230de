/* SPDX-License-Identifier: MIT
 *
 * What the server tells of itself; see debug.h. */
#include "debug.h"
#include "chore.h"
#include "client.h"
#include "reply.h"
#include "stopped.h"
#include "turns.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Metrics: the server's, and then the library's, which end with their end */

static void write_gauge(int file, const char *name, const char *help, uint64_t value)
{
    dprintf(file, "# TYPE sqld_%s gauge\n# HELP sqld_%s %s\nsqld_%s %" PRIu64 "\n", name, name, help, name, value);
}

static void write_server(int file, const struct server *server)
{
    dprintf(file, "# TYPE sqld_queries counter\n"
                  "# HELP sqld_queries Queries that have ended or were refused, by their outcome.\n");
    for (int kind = 0; kind < VERDICT_KINDS; kind++)
        dprintf(file, "sqld_queries_total{outcome=\"%s\"} %" PRIu64 "\n", verdict_kind_name((verdict_kind)kind),
                server->tally[kind]);
    write_gauge(file, "unresolved_queries", "Queries that run or wait.", server->unresolved_count);
    write_gauge(file, "waiting_for_turn", "Queries that have run for some time and wait for their next turn.",
                turns_awaited());
    write_gauge(file, "connections", "Connections of clients.", server->client_count);
}

enum MHD_Result debug_handle_metrics(struct server *server, struct MHD_Connection *connection, const char *rest)
{
    (void)rest;
    int file = memfd_create("metrics", MFD_CLOEXEC);
    if (file < 0)
        return MHD_NO;
    write_server(file, server);
    if (stint_metrics_write(file) == 0)
        return reply_send(connection, MHD_HTTP_OK, reply_file(file, REPLY_METRICS));
    close(file);
    return MHD_NO;
}

/* What a chore writes to a descriptor, and a client gets */

struct written_file {
    struct chore chore;
    struct MHD_Connection *connection;
    const char *type;
    int fd;
    int error;
    struct stopped_snapshot snapshot;
};

static void answer(struct chore *chore, bool ok)
{
    struct written_file *file = (struct written_file *)(void *)chore;
    enum MHD_Result sent;
    stopped_drop_snapshot(&file->snapshot);
    if (ok) {
        sent = reply_send(file->connection, MHD_HTTP_OK, reply_file(file->fd, file->type));
    } else {
        close(file->fd);
        sent = reply_error(file->connection, MHD_HTTP_NOT_IMPLEMENTED, NULL, NULL, "%s",
                           strerror(file->error ? file->error : ENOMEM));
    }
    struct client *client = client_of(file->connection);
    if (client)
        client_time(client);
    if (sent != MHD_YES && client)
        client_shut(client);
    MHD_resume_connection(file->connection);
    free(file);
}

static enum MHD_Result have_written(struct server *server, struct MHD_Connection *connection, stint_fn *run,
                                    const char *type)
{
    struct written_file *file = calloc(1, sizeof *file);
    if (!file)
        return MHD_NO;
    *file = (struct written_file){ .chore = { .run = run, .done = answer }, .connection = connection, .type = type };
    file->fd = memfd_create("debug", MFD_CLOEXEC);
    stopped_take_snapshot(server->stopped, &file->snapshot);
    if (file->fd >= 0 && chore_begin(server, &file->chore) == 0) {
        client_leave_time(client_of(connection));
        MHD_suspend_connection(connection);
        return MHD_YES;
    }
    stopped_drop_snapshot(&file->snapshot);
    if (file->fd >= 0)
        close(file->fd);
    free(file);
    return reply_error(connection, MHD_HTTP_SERVICE_UNAVAILABLE, NULL, NULL, "too many requests at once");
}

static int write_profile(void *argument, void **value)
{
    (void)value;
    struct written_file *file = argument;
    file->error = stint_profile_write(file->fd, STINT_PROFILE_PPROF);
    return file->error;
}

enum MHD_Result debug_handle_profile(struct server *server, struct MHD_Connection *connection, const char *rest)
{
    (void)rest;
    return have_written(server, connection, write_profile, "application/octet-stream");
}

static int write_stopped(void *argument, void **value)
{
    (void)value;
    struct written_file *file = argument;
    FILE *stream = fdopen(dup(file->fd), "w");
    if (!stream)
        return file->error = ENOMEM;
    stopped_print(&file->snapshot, stream);
    if (fclose(stream))
        file->error = errno;
    return file->error;
}

enum MHD_Result debug_handle_stopped(struct server *server, struct MHD_Connection *connection, const char *rest)
{
    (void)rest;
    return have_written(server, connection, write_stopped, REPLY_JSON);
}
