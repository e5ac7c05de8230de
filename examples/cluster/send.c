/* SPDX-License-Identifier: MIT
 *
 * Sending the parcels; see send.h. The first goes alone: if that is refused, nothing has been sent.
 *
 * That a stream is full the sender sees beforehand: it asks how much room there is, and sends no more than that. The
 * servers would refuse what is too much as well, but each replica by what it has itself acknowledged by then, and up to
 * 2.9 at least a stream whose replicas do not agree has to mend itself first. Two senders may still take the same room:
 * what is refused then is sent again. */
#include "send.h"
#include "clock.h"
#include "job.h"
#include "streams.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_SENDING 256
#define MOST_SENDING_BYTES ((size_t)16 << 20)
#define CONFIRM_MS 5000
#define PAUSE_NS UINT64_C(100000000) /* after a refusal that time may mend */

static struct parcel *parcel_of(const struct sender *sender, natsMsg *message)
{
    const char *dot = strrchr(natsMsg_GetSubject(message), '.');
    return dot ? parcels_find(sender->parcels, dot + 1) : NULL;
}

static void wait_again(struct sender *sender, struct parcel *parcel)
{
    size_t index = (size_t)(parcel - sender->parcels->list);
    if (parcel->state == PARCEL_SENDING)
        parcel->state = PARCEL_WAITING;
    if (index < sender->next)
        sender->next = index;
    sender->not_before_ns = clock_now() + PAUSE_NS;
}

/* A refusal. A queue that is full will have room again, and servers that are choosing a leader will answer; with what
 * else they say it will not get better. */
static void note_refusal(struct sender *sender, struct parcel *parcel, const jsPubAckErr *refusal)
{
    bool full = refusal->ErrCode == JSStreamStoreFailedErr || refusal->ErrCode == JSAccountResourcesExceededErr ||
                refusal->ErrCode == JSInsufficientResourcesErr || refusal->ErrCode == JSStorageResourcesExceededErr;
    if (refusal->ErrCode == JSStreamWrongLastSequenceErr) {
        parcel->state = parcel->state == PARCEL_SENDING ? PARCEL_SENT : parcel->state; /* it waits there already */
        sender->confirmed++;
    } else if (refusal->ErrCode == JSStreamMessageExceedsMaximumErr) {
        parcel_fail(parcel, EMSGSIZE, "larger than a message of this stream may be");
    } else if (full && sender->confirmed == 0) {
        snprintf(sender->refused, sizeof sender->refused, "the stream %s is full: %s", sender->stream,
                 refusal->ErrText);
    } else if (full || refusal->ErrCode == 0 || refusal->ErrCode == JSClusterNotAvailErr ||
               refusal->ErrCode == JSStreamSequenceNotMatchErr) {
        wait_again(sender, parcel);
    } else {
        snprintf(sender->refused, sizeof sender->refused, "the stream %s refuses a job: %s", sender->stream,
                 refusal->ErrText);
    }
}

static void on_confirmation(jsCtx *js, natsMsg *message, jsPubAck *ack, jsPubAckErr *refusal, void *closure)
{
    (void)js;
    struct sender *sender = closure;
    struct parcel *parcel = parcel_of(sender, message);
    pthread_mutex_lock(&sender->lock);
    sender->sending--;
    sender->sending_bytes -= (size_t)natsMsg_GetDataLength(message);
    if (ack) {
        sender->confirmed++;
        if (parcel && parcel->state == PARCEL_SENDING)
            parcel->state = PARCEL_SENT;
    } else if (parcel) {
        note_refusal(sender, parcel, refusal);
    }
    if (sender->sending == 0)
        pthread_cond_broadcast(&sender->settled);
    pthread_mutex_unlock(&sender->lock);
    natsMsg_Destroy(message);
}

bool sender_open(struct sender *sender, struct bus *bus, const char *stream, const char *run, struct parcels *parcels)
{
    *sender = (struct sender){ .bus = bus, .stream = stream, .run = run, .parcels = parcels };
    pthread_mutex_init(&sender->lock, NULL);
    pthread_cond_init(&sender->settled, NULL);
    jsOptions options;
    jsOptions_Init(&options);
    options.PublishAsync.AckHandler = on_confirmation;
    options.PublishAsync.AckHandlerClosure = sender;
    options.PublishAsync.MaxPending = 2 * MOST_SENDING;
    natsStatus status = natsConnection_JetStream(&sender->js, bus->connection, &options);
    sender->most_bytes = bus_most_bytes(bus, JOB_HEADERS_ROOM);
    if (status != NATS_OK)
        bus_say(bus, "%s", bus_error(status));
    return status == NATS_OK;
}

void sender_close(struct sender *sender)
{
    jsCtx_Destroy(sender->js);
}

/* A message takes more of a stream than its document: its subject, its headers, and some words for the server. */
static uint64_t stored_size(size_t size)
{
    return size + 1024;
}

static uint64_t room_of(int64_t most, uint64_t taken)
{
    return most <= 0 ? UINT64_MAX : (uint64_t)most > taken ? (uint64_t)most - taken : 0;
}

/* Ask how much room there is, with nothing under way, and not too often. */
static void ask_for_room(struct sender *sender)
{
    jsStreamInfo *info = NULL;
    pthread_mutex_lock(&sender->lock);
    bool quiet = sender->sending == 0;
    pthread_mutex_unlock(&sender->lock);
    if (!quiet || clock_now() - sender->asked_ns < PAUSE_NS)
        return;
    if (js_GetStreamInfo(&info, sender->bus->js, sender->stream, NULL, NULL) == NATS_OK) {
        sender->room_jobs = room_of(info->Config->MaxMsgs, info->State.Msgs);
        sender->room_bytes = room_of(info->Config->MaxBytes, info->State.Bytes);
    }
    jsStreamInfo_Destroy(info);
    sender->asked_ns = clock_now();
}

/* Whether there is room for a document of this size. One that would not even fit into the empty stream is refused by
 * the servers, with a reason. */
static bool take_room(struct sender *sender, size_t size)
{
    if (sender->room_jobs == 0 || sender->room_bytes < stored_size(size))
        ask_for_room(sender);
    if (sender->room_jobs == 0 || sender->room_bytes < stored_size(size))
        return false;
    sender->room_jobs -= sender->room_jobs != UINT64_MAX;
    sender->room_bytes -= sender->room_bytes != UINT64_MAX ? stored_size(size) : 0;
    return true;
}

/* No room, and nothing sent: it is an error. Else there will be some. */
static void note_full(struct sender *sender, struct parcel *parcel)
{
    pthread_mutex_lock(&sender->lock);
    wait_again(sender, parcel);
    if (sender->confirmed == 0 && sender->asked_ns && sender->sending == 0)
        snprintf(sender->refused, sizeof sender->refused, "the stream %s is full: no more jobs may wait in it",
                 sender->stream);
    bool say = !sender->said_full && !sender->refused[0];
    sender->said_full = true;
    pthread_mutex_unlock(&sender->lock);
    if (say)
        bus_say(sender->bus, "the stream %s is full; waiting for room", sender->stream);
}

/* The next that waits, as being sent; NULL: none does, or no more may be under way. */
static struct parcel *take_next(struct sender *sender)
{
    struct parcel *found = NULL;
    pthread_mutex_lock(&sender->lock);
    size_t most = sender->confirmed ? MOST_SENDING : 1;
    bool may = !sender->refused[0] && sender->sending < most && sender->sending_bytes < MOST_SENDING_BYTES &&
               clock_now() >= sender->not_before_ns;
    for (; may && !found && sender->next < sender->parcels->count; sender->next++) {
        struct parcel *parcel = &sender->parcels->list[sender->next];
        if (parcel->same == parcel && parcel->state == PARCEL_WAITING)
            found = parcel;
    }
    if (found)
        found->state = PARCEL_SENDING;
    pthread_mutex_unlock(&sender->lock);
    return found;
}

/* It is not what it was when its hash was made. */
static void fail(struct sender *sender, struct parcel *parcel, int error, size_t size)
{
    pthread_mutex_lock(&sender->lock);
    if (error)
        parcel_fail_unread(parcel, error, size, sender->most_bytes);
    else
        parcel_fail(parcel, EBUSY, "the file changed while it was being sent");
    pthread_mutex_unlock(&sender->lock);
}

static natsMsg *write_message(const struct sender *sender, const struct parcel *parcel, const char *data, size_t size,
                              char **id)
{
    natsMsg *message = NULL;
    char *subject = NULL;
    if (asprintf(id, "%s.%s", sender->run, parcel->hash) < 0)
        *id = NULL;
    else
        subject = streams_subject(sender->stream, "job", *id);
    if (subject)
        message = job_write(subject, parse_kind_name(parcel->file->kind), parcel->file->path, data, size);
    free(subject);
    return message;
}

static void publish(struct sender *sender, struct parcel *parcel, const char *data, size_t size)
{
    char *id = NULL;
    natsMsg *message = write_message(sender, parcel, data, size, &id);
    jsPubOptions options;
    jsPubOptions_Init(&options);
    options.MsgId = id;
    options.ExpectNoMessage = true;
    options.MaxWait = CONFIRM_MS;
    pthread_mutex_lock(&sender->lock);
    sender->sending++;
    sender->sending_bytes += size;
    pthread_mutex_unlock(&sender->lock);
    natsStatus status = message ? js_PublishMsgAsync(sender->js, &message, &options) : NATS_NO_MEMORY;
    if (status != NATS_OK) {
        pthread_mutex_lock(&sender->lock);
        sender->sending--;
        sender->sending_bytes -= size;
        wait_again(sender, parcel);
        pthread_mutex_unlock(&sender->lock);
    }
    natsMsg_Destroy(message);
    free(id);
}

static void send_one(struct sender *sender, struct parcel *parcel)
{
    char *data, hash[PARCEL_HASH + 1];
    size_t size = 0;
    int error = parcel_read(parcel->file, sender->most_bytes, &data, &size, hash);
    if (error || strcmp(hash, parcel->hash) != 0) {
        fail(sender, parcel, error, size);
    } else if (take_room(sender, size)) {
        publish(sender, parcel, data, size);
    } else {
        note_full(sender, parcel);
    }
    free(data);
}

bool sender_send(struct sender *sender)
{
    struct parcel *parcel;
    while ((parcel = take_next(sender)))
        send_one(sender, parcel);
    pthread_mutex_lock(&sender->lock);
    bool refused = sender->refused[0];
    pthread_mutex_unlock(&sender->lock);
    if (refused)
        bus_say(sender->bus, "%s", sender->refused);
    return !refused;
}

void sender_settle(struct sender *sender, unsigned timeout_ms)
{
    struct timespec until = clock_after_ms(timeout_ms);
    pthread_mutex_lock(&sender->lock);
    while (sender->sending && pthread_cond_clockwait(&sender->settled, &sender->lock, CLOCK_MONOTONIC, &until) == 0)
        ;
    pthread_mutex_unlock(&sender->lock);
}

bool sender_has_sent(struct sender *sender)
{
    pthread_mutex_lock(&sender->lock);
    bool sent = sender->confirmed > 0;
    pthread_mutex_unlock(&sender->lock);
    return sent;
}
