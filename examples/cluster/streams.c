/* SPDX-License-Identifier: MIT
 *
 * The streams and the consumer; see streams.h. */
#include "streams.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COUNT 3
#define DUPLICATES_NS INT64_C(120000000000) /* for so long a repeated message is known by its id */
#define MAX_REQUESTS 4096                   /* of workers that wait for jobs, at once */
#define LEAST_MESSAGE 8192                  /* a record, with what its headers need */
#define ATTEMPTS 6                          /* of questions that nobody answers; each takes up to 5 s */
#define PAUSE_NS 500000000L

/* A stream of the three, and what was found of it. */
struct stream {
    const char *suffix, *what;
    jsRetentionPolicy retention;
    char *name, *subject;
    bool exists, made;
};

struct set {
    struct bus *bus;
    const struct streams *wanted;
    struct stream streams[COUNT];
    bool consumer_exists;
    int64_t ack_wait_ns;
};

char *streams_subject(const char *name, const char *what, const char *id)
{
    char *subject;
    return asprintf(&subject, "%s.%s.%s", name, what, id) < 0 ? NULL : subject;
}

char *streams_name(const char *name, const char *suffix)
{
    char *full;
    return asprintf(&full, "%s%s", name, suffix) < 0 ? NULL : full;
}

static bool begin(struct set *set, struct bus *bus, const struct streams *wanted)
{
    *set = (struct set){ .bus = bus,
                         .wanted = wanted,
                         .streams = { { .suffix = "", .what = "job", .retention = js_WorkQueuePolicy },
                                      { .suffix = "_DONE", .what = "done", .retention = js_LimitsPolicy },
                                      { .suffix = "_DEAD", .what = "dead", .retention = js_LimitsPolicy } } };
    bool all = true;
    for (int i = 0; i < COUNT; i++) {
        struct stream *stream = &set->streams[i];
        stream->name = streams_name(wanted->name, stream->suffix);
        stream->subject = streams_subject(wanted->name, stream->what, ">");
        all = all && stream->name && stream->subject;
    }
    if (!all)
        bus_say(bus, "out of memory");
    return all;
}

static void end(struct set *set)
{
    for (int i = 0; i < COUNT; i++) {
        free(set->streams[i].name);
        free(set->streams[i].subject);
    }
}

static bool refuse(const struct set *set, const char *what, const char *name, const char *shape)
{
    bus_say(set->bus, "the %s %s exists with other settings: %s", what, name, shape);
    return false;
}

static bool check_stream(const struct set *set, const struct stream *stream, const jsStreamConfig *config)
{
    static const char *const kept[] = {
        [js_LimitsPolicy] = "limits", [js_InterestPolicy] = "interest", [js_WorkQueuePolicy] = "workqueue"
    };
    char shape[512];
    if (config->Retention != stream->retention) {
        snprintf(shape, sizeof shape, "its retention is %s, and has to be %s", kept[config->Retention],
                 kept[stream->retention]);
    } else if (config->Storage != js_FileStorage) {
        snprintf(shape, sizeof shape, "it is kept in memory, and has to be in files");
    } else if (config->SubjectsLen != 1 || strcmp(config->Subjects[0], stream->subject) != 0) {
        snprintf(shape, sizeof shape, "its subjects have to be %s alone", stream->subject);
    } else if (config->NoAck) {
        snprintf(shape, sizeof shape, "it does not acknowledge what is published");
    } else if (stream->retention == js_WorkQueuePolicy && config->Discard != js_DiscardNew) {
        snprintf(shape, sizeof shape, "when it is full it drops old jobs, and has to refuse new ones");
    } else if (stream->retention == js_WorkQueuePolicy && config->MaxAge > 0) {
        snprintf(shape, sizeof shape, "it drops jobs that are older than max_age, and has to keep them");
    } else if (config->MaxMsgSize > 0 && config->MaxMsgSize < LEAST_MESSAGE) {
        snprintf(shape, sizeof shape, "max_msg_size is %" PRId64 ", and a record may need %d",
                 (int64_t)config->MaxMsgSize, LEAST_MESSAGE);
    } else if (set->wanted->replicas && config->Replicas != set->wanted->replicas) {
        snprintf(shape, sizeof shape, "it has %" PRId64 " replicas, and not %d", config->Replicas,
                 set->wanted->replicas);
    } else {
        return true;
    }
    return refuse(set, "stream", stream->name, shape);
}

static bool check_consumer(const struct set *set, const jsConsumerConfig *config)
{
    const char *shape = NULL;
    if (config->DeliverSubject)
        shape = "it pushes, and has to be pulled from";
    else if (config->AckPolicy != js_AckExplicit)
        shape = "each message has to be acknowledged";
    else if (config->MaxDeliver > 0)
        shape = "it gives up after max_deliver, which would lose jobs: workers count deliveries, and it has to be -1";
    else if (config->FilterSubject && strcmp(config->FilterSubject, set->streams[0].subject) != 0)
        shape = "it filters subjects";
    return !shape || refuse(set, "consumer", set->wanted->durable, shape);
}

static bool say_failed(const struct set *set, const char *doing, const char *name, natsStatus status, jsErrCode code)
{
    if (status == NATS_NO_RESPONDERS || code == JSNotEnabledErr || code == JSNotEnabledForAccountErr)
        bus_say(set->bus, "the server has no JetStream (or none for this account)");
    else
        bus_say(set->bus, "cannot %s %s: %s", doing, name, bus_error(status));
    return false;
}

/* Whether it may be that the servers are just choosing a leader, and another attempt is left. All that is asked can be
 * asked again: what is made twice with one shape is made once. */
static bool try_again(const struct set *set, natsStatus status, jsErrCode code, int *attempt)
{
    bool choosing = status == NATS_TIMEOUT || code == JSClusterNotAvailErr || code == JSClusterNotLeaderErr ||
                    status == NATS_CONNECTION_DISCONNECTED;
    if (!choosing || ++*attempt == ATTEMPTS)
        return false;
    if (*attempt == 1)
        bus_say(set->bus, "the servers do not answer: %s; trying again", bus_error(status));
    nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
    return true;
}

static bool look_at_stream(struct set *set, struct stream *stream)
{
    jsStreamInfo *info = NULL;
    jsErrCode code = 0;
    natsStatus status;
    int attempt = 0;
    do {
        status = js_GetStreamInfo(&info, set->bus->js, stream->name, NULL, &code);
    } while (try_again(set, status, code, &attempt));
    if (status == NATS_NOT_FOUND)
        return true;
    if (status != NATS_OK)
        return say_failed(set, "look at the stream", stream->name, status, code);
    stream->exists = true;
    bool fits = check_stream(set, stream, info->Config);
    jsStreamInfo_Destroy(info);
    return fits;
}

static bool look_at_consumer(struct set *set)
{
    jsConsumerInfo *info = NULL;
    jsErrCode code = 0;
    const char *stream = set->streams[0].name, *durable = set->wanted->durable;
    natsStatus status;
    int attempt = 0;
    do {
        status = js_GetConsumerInfo(&info, set->bus->js, stream, durable, NULL, &code);
    } while (try_again(set, status, code, &attempt));
    if (status == NATS_NOT_FOUND)
        return true;
    if (status != NATS_OK)
        return say_failed(set, "look at the consumer", durable, status, code);
    set->consumer_exists = true;
    set->ack_wait_ns = info->Config->AckWait;
    bool fits = check_consumer(set, info->Config);
    jsConsumerInfo_Destroy(info);
    return fits;
}

static bool look_at_all(struct set *set)
{
    for (int i = 0; i < COUNT; i++) {
        if (!look_at_stream(set, &set->streams[i]))
            return false;
    }
    return !set->streams[0].exists || look_at_consumer(set);
}

static bool make_stream(struct set *set, struct stream *stream)
{
    const struct streams *wanted = set->wanted;
    const char *subjects[] = { stream->subject };
    jsStreamConfig config;
    jsStreamConfig_Init(&config);
    config.Name = stream->name;
    config.Subjects = subjects;
    config.SubjectsLen = 1;
    config.Retention = stream->retention;
    config.Storage = js_FileStorage;
    config.Replicas = wanted->replicas ? wanted->replicas : 1;
    config.Duplicates = DUPLICATES_NS;
    if (stream->retention == js_WorkQueuePolicy) {
        config.Discard = js_DiscardNew;
        config.MaxMsgs = wanted->max_jobs ? wanted->max_jobs : -1;
        config.MaxBytes = wanted->max_bytes ? wanted->max_bytes : -1;
    } else if (strcmp(stream->what, "done") == 0) {
        config.MaxAge = wanted->keep_ns;
        if (config.MaxAge && config.MaxAge < config.Duplicates)
            config.Duplicates = config.MaxAge;
    }
    jsErrCode code = 0;
    natsStatus status;
    int attempt = 0;
    do {
        status = js_AddStream(NULL, set->bus->js, &config, NULL, &code);
    } while (try_again(set, status, code, &attempt));
    stream->made = status == NATS_OK;
    return stream->made || say_failed(set, "make the stream", stream->name, status, code);
}

/* It never gives up: what a server gives up it announces once, to whoever listens, and keeps the message for ever. */
static bool make_consumer(struct set *set)
{
    const struct streams *wanted = set->wanted;
    jsConsumerConfig config;
    jsConsumerConfig_Init(&config);
    config.Durable = wanted->durable;
    config.DeliverPolicy = js_DeliverAll;
    config.AckPolicy = js_AckExplicit;
    config.AckWait = wanted->ack_wait_ns;
    config.MaxDeliver = -1;
    config.MaxAckPending = STREAMS_MAX_PENDING;
    config.MaxWaiting = MAX_REQUESTS;
    jsErrCode code = 0;
    natsStatus status;
    int attempt = 0;
    do {
        status = js_AddConsumer(NULL, set->bus->js, set->streams[0].name, &config, NULL, &code);
    } while (try_again(set, status, code, &attempt));
    return status == NATS_OK || say_failed(set, "make the consumer", wanted->durable, status, code);
}

static bool make_missing(struct set *set)
{
    for (int i = 0; i < COUNT; i++) {
        if (!set->streams[i].exists && !make_stream(set, &set->streams[i]))
            return false;
    }
    return set->consumer_exists || make_consumer(set);
}

static void take_back(struct set *set)
{
    for (int i = 0; i < COUNT; i++) {
        if (set->streams[i].made)
            js_DeleteStream(set->bus->js, set->streams[i].name, NULL, NULL);
    }
}

bool streams_make(struct bus *bus, const struct streams *wanted)
{
    struct set set;
    bool done = begin(&set, bus, wanted) && look_at_all(&set);
    if (done && !make_missing(&set)) {
        take_back(&set);
        done = false;
    }
    end(&set);
    return done;
}

static bool all_are_there(const struct set *set)
{
    for (int i = 0; i < COUNT; i++) {
        if (!set->streams[i].exists) {
            bus_say(set->bus, "there is no stream %s: stint-dispatch --create makes it", set->streams[i].name);
            return false;
        }
    }
    if (!set->consumer_exists)
        bus_say(set->bus, "the stream %s has no consumer %s: stint-dispatch --create makes it", set->streams[0].name,
                set->wanted->durable);
    return set->consumer_exists;
}

bool streams_check(struct bus *bus, struct streams *wanted)
{
    struct set set;
    bool fits = begin(&set, bus, wanted) && look_at_all(&set) && all_are_there(&set);
    wanted->ack_wait_ns = set.ack_wait_ns;
    end(&set);
    return fits;
}
