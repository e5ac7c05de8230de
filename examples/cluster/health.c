/* SPDX-License-Identifier: MIT
 *
 * What watches a worker; see health.h. */
#include "health.h"
#include "address.h"
#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <stint/stint.h>

#define BACKLOG 16
#define MAX_REQUEST 4096
#define CLIENT_NS UINT64_C(1000000000) /* that one client may take, as others wait for it */

struct health {
    struct bus *bus;
    struct places *places;
    atomic_bool draining;
    int listener;
    int stop[2]; /* a pipe: to be closed wakes the thread */
    pthread_t thread;
};

/* Have a receive or send on the socket take no longer than until then. False: it is over. */
static bool set_time_left(int client, int option, uint64_t until_ns)
{
    uint64_t now = clock_now();
    if (now >= until_ns)
        return false;
    uint64_t microseconds = (until_ns - now) / 1000 + 1;
    struct timeval left = { .tv_sec = (time_t)(microseconds / 1000000),
                            .tv_usec = (suseconds_t)(microseconds % 1000000) };
    return setsockopt(client, SOL_SOCKET, option, &left, sizeof left) == 0;
}

/* Read the first line of a request. False: none came in time. */
static bool read_request(int client, uint64_t until_ns, char room[MAX_REQUEST + 1])
{
    size_t length = 0;
    room[0] = 0;
    while (length < MAX_REQUEST && !strstr(room, "\r\n\r\n") && !strstr(room, "\n\n")) {
        if (!set_time_left(client, SO_RCVTIMEO, until_ns))
            return false;
        ssize_t count = recv(client, room + length, MAX_REQUEST - length, 0);
        if (count <= 0)
            return false;
        length += (size_t)count;
        room[length] = 0;
    }
    room[strcspn(room, "\r\n")] = 0;
    return true;
}

static void write_counts(int file, struct health *health)
{
    places_counts counts;
    places_read(health->places, &counts);
    dprintf(file,
            "# TYPE stint_worker_jobs counter\n"
            "# HELP stint_worker_jobs Jobs that this worker has brought to an end.\n"
            "stint_worker_jobs_total{end=\"ok\"} %" PRIu64 "\n"
            "stint_worker_jobs_total{end=\"dead\"} %" PRIu64 "\n"
            "stint_worker_jobs_total{end=\"cancelled\"} %" PRIu64 "\n"
            "stint_worker_jobs_total{end=\"handed_back\"} %" PRIu64 "\n",
            counts.ok, counts.dead, counts.cancelled, counts.handed_back);
    dprintf(file,
            "# TYPE stint_worker_busy_places gauge\n"
            "# HELP stint_worker_busy_places Jobs in hand: running, or being reported.\n"
            "stint_worker_busy_places %u\n"
            "# TYPE stint_worker_connected gauge\n"
            "# HELP stint_worker_connected Whether a server can be reached.\n"
            "stint_worker_connected %d\n"
            "# TYPE stint_worker_reconnects counter\n"
            "# HELP stint_worker_reconnects Times that a lost connection was made again.\n"
            "stint_worker_reconnects_total %u\n",
            counts.busy, atomic_load(&health->bus->connected), atomic_load(&health->bus->reconnects));
}

static void answer(int client, const char *status, const char *type, int body)
{
    off_t size = lseek(body, 0, SEEK_END), sent = 0;
    char head[256];
    int length = snprintf(head, sizeof head,
                          "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %lld\r\nConnection: close\r\n\r\n",
                          status, type, (long long)size);
    if (send(client, head, (size_t)length, MSG_NOSIGNAL) != length)
        return;
    while (sent < size && sendfile(client, body, &sent, (size_t)(size - sent)) > 0)
        ;
}

static void answer_health(int client, struct health *health, int body)
{
    const char *why = atomic_load(&health->draining)          ? "draining\n"
                      : !atomic_load(&health->bus->connected) ? "not connected\n"
                                                              : NULL;
    dprintf(body, "%s", why ? why : "ok\n");
    answer(client, why ? "503 Service Unavailable" : "200 OK", "text/plain", body);
}

static void answer_metrics(int client, struct health *health, int body)
{
    write_counts(body, health);
    if (stint_metrics_write(body) == 0)
        answer(client, "200 OK", "application/openmetrics-text; version=1.0.0; charset=utf-8", body);
}

static void talk(int client, struct health *health)
{
    uint64_t until_ns = clock_now() + CLIENT_NS;
    char request[MAX_REQUEST + 1];
    int body = memfd_create("answer", MFD_CLOEXEC);
    if (body >= 0 && read_request(client, until_ns, request) && set_time_left(client, SO_SNDTIMEO, until_ns)) {
        if (strncmp(request, "GET /healthz ", 13) == 0)
            answer_health(client, health, body);
        else if (strncmp(request, "GET /metrics ", 13) == 0)
            answer_metrics(client, health, body);
        else
            answer(client, "404 Not Found", "text/plain", body);
    }
    if (body >= 0)
        close(body);
}

static void *serve(void *argument)
{
    struct health *health = argument;
    struct pollfd ready[] = { { health->listener, POLLIN, 0 }, { health->stop[0], POLLIN, 0 } };
    while (poll(ready, 2, -1) >= 0 || errno == EINTR) {
        if (ready[1].revents)
            break;
        int client = accept4(health->listener, NULL, NULL, SOCK_CLOEXEC);
        if (client >= 0) {
            talk(client, health);
            close(client);
        } else if (errno != EAGAIN) {
            /* Without a descriptor for it the client stays, and poll would return at once. */
            nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
        }
    }
    return NULL;
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
    int error = health ? 0 : ENOMEM;
    if (!error) {
        *health = (struct health){ .bus = bus, .places = places, .listener = listener };
        error = pipe2(health->stop, O_CLOEXEC) ? errno : pthread_create(&health->thread, NULL, serve, health);
    }
    if (error) {
        bus_say(bus, "--health: %s", strerror(error));
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
    close(health->stop[1]);
    pthread_join(health->thread, NULL);
    close(health->stop[0]);
    close(health->listener);
    free(health);
}
