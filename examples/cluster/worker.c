/* SPDX-License-Identifier: MIT
 *
 * stint-worker: takes jobs from a JetStream work queue and runs each as a task. This file puts the parts together, and
 * asks for messages: for as many as there are free places, never for more. */
#include "budget_options.h"
#include "health.h"
#include "parse.h"
#include "streams.h"
#include "wall.h"
#include "worker_options.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_ENDED = 0, EXIT_REFUSED = 1, EXIT_UNUSABLE = 2 };

#define FREE_TICK_MS 100              /* how long a signal may wait for the loop to look at it */
#define REQUEST_NS INT64_C(500000000) /* how long the servers keep a request open */
#define LARGEST_REQUEST 256

static volatile sig_atomic_t stopping;

/* Who sends it twice does not want to wait: what is in hand goes to another worker in time. */
static void stop(int signal)
{
    (void)signal;
    if (stopping)
        _exit(EXIT_REFUSED);
    stopping = 1;
}

static void catch_signals(void)
{
    struct sigaction action = { .sa_handler = stop, .sa_flags = SA_RESTART };
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

struct source {
    struct bus *bus;
    natsSubscription *jobs;    /* pulls */
    natsSubscription *cancels; /* is told */
    natsStatus said;           /* the last trouble that was told of */
};

static void on_cancel(natsConnection *connection, natsSubscription *subscription, natsMsg *message, void *closure)
{
    (void)connection;
    (void)subscription;
    const char *id = strstr(natsMsg_GetSubject(message), ".cancel.");
    if (id)
        places_cancel(closure, id + strlen(".cancel."));
    natsMsg_Destroy(message);
}

static bool open_source(struct source *source, struct bus *bus, const struct streams *streams, struct places *places)
{
    *source = (struct source){ .bus = bus };
    jsSubOptions options;
    jsSubOptions_Init(&options);
    options.Stream = streams->name;
    options.Consumer = streams->durable;
    natsStatus status = js_PullSubscribe(&source->jobs, bus->js, NULL, streams->durable, NULL, &options, NULL);
    char *cancels = streams_subject(streams->name, "cancel", ">");
    if (status == NATS_OK && !cancels)
        status = NATS_NO_MEMORY;
    if (status == NATS_OK)
        status = natsConnection_Subscribe(&source->cancels, bus->connection, cancels, on_cancel, places);
    free(cancels);
    if (status != NATS_OK)
        bus_say(bus, "cannot subscribe: %s", bus_error(status));
    return status == NATS_OK;
}

static void close_source(struct source *source)
{
    natsSubscription_Destroy(source->cancels);
    natsSubscription_Destroy(source->jobs);
}

/* Nothing to do is no trouble; anything else is told of once, and then tried again. */
static void note_trouble(struct source *source, natsStatus status)
{
    bool idle = status == NATS_OK || status == NATS_TIMEOUT || status == NATS_NOT_FOUND;
    if (!idle && status != source->said && atomic_load(&source->bus->connected))
        bus_say(source->bus, "cannot take jobs: %s; trying again", bus_error(status));
    source->said = idle ? NATS_OK : status;
    if (!idle || status == NATS_NOT_FOUND)
        nanosleep(&(struct timespec){ .tv_nsec = FREE_TICK_MS * 1000000L }, NULL);
}

static void take_jobs(struct source *source, struct places *places, unsigned free)
{
    natsMsgList list = { NULL, 0 };
    jsFetchRequest request;
    jsFetchRequest_Init(&request);
    request.Batch = (int)(free < LARGEST_REQUEST ? free : LARGEST_REQUEST);
    request.NoWait = true; /* with a time: as many as there are, but wait for the first */
    request.Expires = REQUEST_NS;
    natsStatus status = natsSubscription_FetchRequest(&list, source->jobs, &request);
    for (int i = 0; i < list.Count; i++) {
        places_take(places, list.Msgs[i]);
        list.Msgs[i] = NULL;
    }
    natsMsgList_Destroy(&list);
    note_trouble(source, status);
}

static void work(struct source *source, struct places *places)
{
    while (!stopping && !atomic_load(&source->bus->closed)) {
        unsigned free = places_wait_free(places, FREE_TICK_MS);
        if (free)
            take_jobs(source, places, free);
    }
}

static int end(struct bus *bus, struct source *source, struct places *places, struct health *health,
               const struct worker_options *options)
{
    health_drain(health);
    if (stopping)
        bus_say(bus, "ending: no new jobs");
    else
        bus_say(bus, "the servers have closed the connection for good");
    places_drain(places, stopping ? options->drain_ns : 0);
    places_counts counts;
    places_read(places, &counts);
    bus_say(bus, "%llu ok, %llu dead letters, %llu cancelled, %llu handed back", (unsigned long long)counts.ok,
            (unsigned long long)counts.dead, (unsigned long long)counts.cancelled,
            (unsigned long long)counts.handed_back);
    health_close(health);
    natsSubscription_Unsubscribe(source->cancels);
    if (!places_close(places)) {
        bus_say(bus, "a job cannot be stopped; its message goes to another worker in time");
        _exit(EXIT_REFUSED);
    }
    close_source(source);
    return stopping ? EXIT_ENDED : EXIT_REFUSED;
}

static int run(struct bus *bus, const struct worker_options *options, stint_wall *wall)
{
    places_options wanted = {
        .bus = bus,
        .stream = options->streams.name,
        .count = options->concurrency,
        .processors = 0,
        .max_runs = options->max_runs,
        .budget = &options->budget,
        .wall = wall,
        .ack_wait_ns = options->streams.ack_wait_ns,
        .verbose = options->verbose,
    };
    struct places *places = places_open(&wanted);
    if (!places)
        return EXIT_UNUSABLE;
    struct source source;
    struct health *health = NULL;
    bool good = open_source(&source, bus, &options->streams, places) &&
                (!options->health || (health = health_open(options->health, bus, places)));
    if (!good) {
        close_source(&source);
        places_close(places);
        return EXIT_UNUSABLE;
    }
    bus_say(bus, "ready: stream %s, consumer %s, %u places", options->streams.name, options->streams.durable,
            options->concurrency);
    work(&source, places);
    return end(bus, &source, places, health, options);
}

/* Before any thread. *wall is NULL where jobs run in place. */
static bool open_wall(const struct worker_options *options, stint_wall **wall)
{
    char message[512] = "";
    parse_wall_options wanted = { options->concurrency, options->reuse, budget_backstop(&options->budget) };
    *wall = NULL;
    if (options->in_place)
        return true;
    int error = parse_wall_create(&wanted, wall, message, sizeof message);
    if (error)
        fprintf(stderr, "stint-worker: cannot make a wall (--in-place works without one): %s\n",
                message[0] ? message : strerror(error));
    return error == 0;
}

int main(int argc, char **argv)
{
    struct worker_options options;
    arguments_next next = worker_options_read(&options, argc, argv);
    if (next != ARGUMENTS_RUN)
        return next == ARGUMENTS_DONE ? EXIT_ENDED : EXIT_UNUSABLE;
    setlinebuf(stderr);
    parse_ready_libraries();
    stint_wall *wall;
    if (!open_wall(&options, &wall))
        return EXIT_UNUSABLE;
    catch_signals();
    struct bus bus;
    int status = EXIT_UNUSABLE;
    if (bus_open(&bus, &options.bus)) {
        status = streams_check(&bus, &options.streams) ? run(&bus, &options, wall) : EXIT_UNUSABLE;
        bus_close(&bus);
    }
    stint_wall_destroy(wall);
    return status;
}
