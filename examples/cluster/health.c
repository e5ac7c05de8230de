/* SPDX-License-Identifier: MIT
 *
 * What watches a worker; see health.h. */
#include "health.h"
#include "address.h"

#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <stint/stint.h>

#define BACKLOG 64
#define CLIENTS 256      /* at once; more wait in the system's queue */
#define CLIENT_SECONDS 2 /* without a byte from it or to it */

struct health {
    struct bus *bus;
    struct places *places;
    atomic_bool draining;
    struct MHD_Daemon *daemon;
};

static void write_counts(int file, struct health *health, const places_counts *counts)
{
    dprintf(file,
            "# TYPE stint_worker_jobs counter\n"
            "# HELP stint_worker_jobs Jobs that this worker has brought to an end.\n"
            "stint_worker_jobs_total{end=\"ok\"} %" PRIu64 "\n"
            "stint_worker_jobs_total{end=\"dead\"} %" PRIu64 "\n"
            "stint_worker_jobs_total{end=\"cancelled\"} %" PRIu64 "\n"
            "stint_worker_jobs_total{end=\"handed_back\"} %" PRIu64 "\n",
            counts->ok, counts->dead, counts->cancelled, counts->handed_back);
    dprintf(file,
            "# TYPE stint_worker_busy_places gauge\n"
            "# HELP stint_worker_busy_places Jobs in hand: running, or being reported.\n"
            "stint_worker_busy_places %u\n"
            "# TYPE stint_worker_overdue_jobs gauge\n"
            "# HELP stint_worker_overdue_jobs Jobs that run for more than a second past their deadline.\n"
            "stint_worker_overdue_jobs %u\n"
            "# TYPE stint_worker_connected gauge\n"
            "# HELP stint_worker_connected Whether a server can be reached.\n"
            "stint_worker_connected %d\n"
            "# TYPE stint_worker_reconnects counter\n"
            "# HELP stint_worker_reconnects Times that a lost connection was made again.\n"
            "stint_worker_reconnects_total %u\n",
            counts->busy, counts->overdue, atomic_load(&health->bus->connected), atomic_load(&health->bus->reconnects));
}

/* The body is a file in memory, which goes with the answer. */
static enum MHD_Result answer(struct MHD_Connection *client, unsigned status, const char *type, int body)
{
    off_t size = lseek(body, 0, SEEK_END);
    struct MHD_Response *response = size < 0 ? NULL : MHD_create_response_from_fd((uint64_t)size, body);
    if (!response) {
        close(body);
        return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    enum MHD_Result result = MHD_queue_response(client, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result answer_health(struct MHD_Connection *client, struct health *health, int body)
{
    places_counts counts;
    places_read(health->places, &counts);
    const char *why = atomic_load(&health->draining)              ? "draining"
                      : !atomic_load(&health->bus->connected)     ? "not connected"
                      : places_are_stuck(health->places, &counts) ? "stuck"
                                                                  : NULL;
    dprintf(body, "%s\n", why ? why : "ok");
    if (counts.overdue)
        dprintf(body, "%u of %u jobs in hand run for more than a second past their deadline\n", counts.overdue,
                counts.busy);
    return answer(client, why ? MHD_HTTP_SERVICE_UNAVAILABLE : MHD_HTTP_OK, "text/plain", body);
}

static enum MHD_Result answer_metrics(struct MHD_Connection *client, struct health *health, int body)
{
    places_counts counts;
    places_read(health->places, &counts);
    write_counts(body, health, &counts);
    if (stint_metrics_write(body) == 0)
        return answer(client, MHD_HTTP_OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", body);
    close(body);
    return MHD_NO;
}

static enum MHD_Result handle(void *argument, struct MHD_Connection *client, const char *path, const char *method,
                              const char *version, const char *upload, size_t *upload_size, void **context)
{
    (void)version;
    (void)upload;
    *upload_size = 0;
    if (!*context) { /* its head alone is here */
        *context = argument;
        return MHD_YES;
    }
    int body = memfd_create("answer", MFD_CLOEXEC);
    bool reads = strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    if (body < 0)
        return MHD_NO;
    if (reads && strcmp(path, "/healthz") == 0)
        return answer_health(client, argument, body);
    if (reads && strcmp(path, "/metrics") == 0)
        return answer_metrics(client, argument, body);
    return answer(client, reads ? MHD_HTTP_NOT_FOUND : MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain", body);
}

/* -1: a line has said why. */
static int open_listener(const char *text, const struct bus *bus)
{
    struct address address;
    if (!strchr(text, ':'))
        return bus_say(bus, "--health: '%s' is not ADDR:PORT", text), -1;
    int error = address_read(&address, text, 0);
    int listener = error ? -1 : address_listen(&address, BACKLOG);
    if (listener < 0)
        bus_say(bus, "--health: %s: %s", text, error ? gai_strerror(error) : strerror(errno));
    return listener;
}

struct health *health_open(const char *address, struct bus *bus, struct places *places)
{
    int listener = open_listener(address, bus);
    if (listener < 0)
        return NULL;
    struct health *health = calloc(1, sizeof *health);
    if (health) {
        *health = (struct health){ .bus = bus, .places = places };
        health->daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, handle, health,
                                          MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_CONNECTION_LIMIT, CLIENTS,
                                          MHD_OPTION_CONNECTION_TIMEOUT, CLIENT_SECONDS, MHD_OPTION_END);
    }
    if (!health || !health->daemon) {
        bus_say(bus, "--health: cannot start");
        close(listener);
        free(health);
        return NULL;
    }
    return health;
}

void health_drain(struct health *health)
{
    if (health)
        atomic_store(&health->draining, true);
}

void health_close(struct health *health)
{
    if (!health)
        return;
    MHD_stop_daemon(health->daemon); /* and its listener */
    free(health);
}
