/* SPDX-License-Identifier: MIT
 *
 * The records of a run; see results.h. The consumer is light: kept in the memory of one server, as all that it knows
 * can be read again from the stream. */
#include "results.h"
#include "clock.h"
#include "streams.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCH 256
#define IDLE_NS INT64_C(60000000000)    /* after so long without a request the servers forget the consumer */
#define SILENCE_NS UINT64_C(3000000000) /* after so long without a sign of life it is looked after */
#define LOOK_MS 2000

static natsStatus subscribe(struct results *results)
{
    jsSubOptions options;
    jsSubOptions_Init(&options);
    options.Stream = results->stream;
    options.Config.DeliverPolicy = js_DeliverAll;
    options.Config.AckPolicy = js_AckExplicit;
    options.Config.AckWait = INT64_C(10000000000);
    options.Config.MaxAckPending = 4 * BATCH;
    options.Config.InactiveThreshold = IDLE_NS;
    options.Config.Replicas = 1;
    options.Config.MemoryStorage = true;
    results->heard_ns = clock_now();
    return js_PullSubscribe(&results->subscription, results->bus->js, results->subject, NULL, NULL, &options, NULL);
}

bool results_open(struct results *results, struct bus *bus, const char *stream, const char *run)
{
    *results = (struct results){ .bus = bus };
    char *id;
    if (asprintf(&id, "%s.*", run) < 0)
        return bus_say(bus, "out of memory"), false;
    results->stream = streams_name(stream, "_DONE");
    results->subject = streams_subject(stream, "done", id);
    free(id);
    natsStatus status = results->stream && results->subject ? subscribe(results) : NATS_NO_MEMORY;
    if (status != NATS_OK) {
        bus_say(bus, "cannot wait for results: %s", bus_error(status));
        results_close(results);
    }
    return status == NATS_OK;
}

void results_close(struct results *results)
{
    if (results->subscription)
        natsSubscription_Unsubscribe(results->subscription); /* and its consumer goes */
    natsSubscription_Destroy(results->subscription);
    free(results->stream);
    free(results->subject);
}

/* Is the consumer still there? If not, or if nobody can say, another one reads all from the start. */
static void look_after(struct results *results)
{
    jsConsumerInfo *info = NULL;
    jsOptions options;
    jsOptions_Init(&options);
    options.Wait = LOOK_MS;
    natsStatus status = results->subscription
                            ? natsSubscription_GetConsumerInfo(&info, results->subscription, &options, NULL)
                            : NATS_NOT_FOUND;
    jsConsumerInfo_Destroy(info);
    results->heard_ns = clock_now();
    if (status == NATS_OK || !atomic_load(&results->bus->connected))
        return;
    natsSubscription_Destroy(results->subscription);
    results->subscription = NULL;
    subscribe(results);
}

static void give(natsMsg *message, results_fn *fn, void *argument)
{
    struct record record;
    const char *dot = strrchr(natsMsg_GetSubject(message), '.');
    if (dot && record_read(&record, natsMsg_GetData(message), (size_t)natsMsg_GetDataLength(message)))
        fn(argument, dot + 1, &record);
    natsMsg_Ack(message, NULL);
}

unsigned results_take(struct results *results, unsigned timeout_ms, results_fn *fn, void *argument)
{
    natsMsgList list = { NULL, 0 };
    jsFetchRequest request;
    jsFetchRequest_Init(&request);
    request.Batch = BATCH;
    request.NoWait = true; /* with a time: as many as there are, but wait for the first */
    request.Expires = (int64_t)timeout_ms * 1000000;
    natsStatus status = NATS_NO_RESPONDERS;
    if (results->subscription)
        status = natsSubscription_FetchRequest(&list, results->subscription, &request);
    for (int i = 0; i < list.Count; i++)
        give(list.Msgs[i], fn, argument);
    unsigned count = (unsigned)list.Count;
    natsMsgList_Destroy(&list);
    if (status == NATS_OK)
        results->heard_ns = clock_now();
    else if (status != NATS_TIMEOUT)
        nanosleep(&(struct timespec){ .tv_nsec = (long)(timeout_ms % 1000) * 1000000L }, NULL);
    if (clock_now() - results->heard_ns >= SILENCE_NS)
        look_after(results);
    return count;
}
