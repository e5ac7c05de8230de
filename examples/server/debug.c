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

#define END "# EOF\n"

/* Metrics: the library's, and between them and their end the server's */

static void print_gauge(FILE *file, const char *name, const char *help, uint64_t value)
{
    fprintf(file, "# TYPE sqld_%s gauge\n# HELP sqld_%s %s\nsqld_%s %" PRIu64 "\n", name, name, help, name, value);
}

static void print_server(const struct server *server, FILE *file)
{
    fputs(
        "# TYPE sqld_queries counter\n# HELP sqld_queries Queries that have ended or were refused, by their outcome.\n",
        file);
    for (int kind = 0; kind < VERDICT_KINDS; kind++)
        fprintf(file, "sqld_queries_total{outcome=\"%s\"} %" PRIu64 "\n", verdict_kind_name((verdict_kind)kind),
                server->tally[kind]);
    print_gauge(file, "unresolved_queries", "Queries that run or wait.", server->unresolved_count);
    print_gauge(file, "waiting_for_turn", "Queries that have run for some time and wait for their next turn.",
                turns_awaited());
    print_gauge(file, "connections", "Connections of clients.", server->client_count);
}

static void print_library(int fd, FILE *file)
{
    off_t size = lseek(fd, 0, SEEK_END) - (off_t)strlen(END);
    char block[4096];
    for (off_t at = 0; at < size;) {
        size_t wanted = size - at < (off_t)sizeof block ? (size_t)(size - at) : sizeof block;
        ssize_t got = pread(fd, block, wanted, at);
        if (got <= 0)
            break;
        fwrite(block, 1, (size_t)got, file);
        at += got;
    }
}

enum MHD_Result debug_handle_metrics(struct server *server, struct MHD_Connection *connection, const char *rest)
{
    (void)rest;
    struct reply reply;
    int fd = memfd_create("metrics", MFD_CLOEXEC);
    if (fd < 0)
        return MHD_NO;
    if (stint_metrics_write(fd) == 0 && reply_begin(&reply)) {
        print_library(fd, reply.file);
        print_server(server, reply.file);
        fputs(END, reply.file);
        close(fd);
        return reply_send(connection, MHD_HTTP_OK, reply_end(&reply, REPLY_METRICS));
    }
    close(fd);
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
    return reply_error(connection, MHD_HTTP_SERVICE_UNAVAILABLE, NULL, NULL, "too much is asked for at once");
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
