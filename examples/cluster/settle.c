/* SPDX-License-Identifier: MIT
 *
 * The end of a job; see settle.h. That the first record stands is the stream's doing: each is published on the
 * condition that there is no message of its subject yet, and with an id by which a repeat is known. */
#include "settle.h"
#include "streams.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FIRST_PAUSE_MS 20
#define LONGEST_PAUSE_MS 1000

/* Between two attempts: longer each time, as who fails may have too much to do. False: told to hurry. */
static bool pause_before_next(const struct settler *settler, unsigned *pause_ms)
{
    for (unsigned waited = 0; waited < *pause_ms; waited += FIRST_PAUSE_MS) {
        if (atomic_load(settler->hurry) || atomic_load(&settler->bus->closed))
            return false;
        nanosleep(&(struct timespec){ .tv_nsec = FIRST_PAUSE_MS * 1000000L }, NULL);
    }
    *pause_ms = *pause_ms * 2 < LONGEST_PAUSE_MS ? *pause_ms * 2 : LONGEST_PAUSE_MS;
    return !atomic_load(settler->hurry);
}

enum stored { STORED_NEW, STORED_BEFORE, STORED_TOO_LARGE, STORED_NOT };

/* Publish, until a server says that it has it. The message stays the caller's. */
static enum stored store(const struct settler *settler, natsMsg *message, const char *message_id)
{
    unsigned pause_ms = FIRST_PAUSE_MS;
    jsPubOptions options;
    jsPubOptions_Init(&options);
    options.MsgId = message_id;
    options.ExpectNoMessage = true;
    bool said = false;
    do {
        jsPubAck *ack = NULL;
        jsErrCode code = 0;
        natsStatus status = js_PublishMsg(&ack, settler->bus->js, message, &options, &code);
        bool repeated = status == NATS_OK && ack->Duplicate;
        jsPubAck_Destroy(ack);
        if (status == NATS_OK)
            return repeated ? STORED_BEFORE : STORED_NEW;
        if (code == JSStreamWrongLastSequenceErr)
            return STORED_BEFORE;
        if (status == NATS_MAX_PAYLOAD || code == JSStreamMessageExceedsMaximumErr)
            return STORED_TOO_LARGE;
        if (!said)
            bus_say(settler->bus, "%s: %s; trying again", natsMsg_GetSubject(message), bus_error(status));
        said = true;
    } while (pause_before_next(settler, &pause_ms));
    return STORED_NOT;
}

bool settle_find(const struct settler *settler, const struct job *job, struct record *record)
{
    char *stream = streams_name(settler->stream, "_DONE"), *subject = streams_subject(settler->stream, "done", job->id);
    natsMsg *message = NULL;
    bool found = stream && subject &&
                 js_GetLastMsg(&message, settler->bus->js, stream, subject, NULL, NULL) == NATS_OK &&
                 record_read(record, natsMsg_GetData(message), (size_t)natsMsg_GetDataLength(message));
    natsMsg_Destroy(message);
    free(stream);
    free(subject);
    return found;
}

/* A dead letter that is larger than a message may be goes without its document. */
static natsMsg *write_letter(const struct settler *settler, const struct job *job, const char *outcome,
                             bool with_document)
{
    char *subject = streams_subject(settler->stream, "dead", job->id), size[24];
    int length = natsMsg_GetDataLength(job->message);
    natsMsg *letter = NULL;
    if (subject)
        letter = job_write(subject, job->known ? parse_kind_name(job->kind) : "unknown", job->name,
                           natsMsg_GetData(job->message), with_document ? (size_t)length : 0);
    natsStatus status = letter ? natsMsgHeader_Set(letter, JOB_OUTCOME, outcome) : NATS_NO_MEMORY;
    if (status == NATS_OK && !with_document) {
        snprintf(size, sizeof size, "%d", length);
        status = natsMsgHeader_Set(letter, JOB_OMITTED, size);
    }
    if (status != NATS_OK) {
        natsMsg_Destroy(letter);
        letter = NULL;
    }
    free(subject);
    return letter;
}

static enum stored store_letter(const struct settler *settler, const struct job *job, const char *outcome,
                                bool with_document)
{
    natsMsg *letter = write_letter(settler, job, outcome, with_document);
    enum stored stored = letter ? store(settler, letter, job->id) : STORED_NOT;
    natsMsg_Destroy(letter);
    return stored;
}

static bool publish_letter(const struct settler *settler, const struct job *job, const struct record *record)
{
    char *outcome = record_write(record);
    enum stored stored = outcome ? store_letter(settler, job, outcome, true) : STORED_NOT;
    if (stored == STORED_TOO_LARGE)
        stored = store_letter(settler, job, outcome, false);
    free(outcome);
    return stored == STORED_NEW || stored == STORED_BEFORE;
}

/* Until the server says that it knows. */
static bool acknowledge(const struct settler *settler, const struct job *job, bool terminate)
{
    unsigned pause_ms = FIRST_PAUSE_MS;
    jsOptions options;
    jsOptions_Init(&options);
    options.Wait = 2000; /* makes both wait for the answer */
    do {
        natsStatus status =
            terminate ? natsMsg_Term(job->message, &options) : natsMsg_AckSync(job->message, &options, NULL);
        if (status == NATS_OK)
            return true;
    } while (pause_before_next(settler, &pause_ms));
    return false;
}

enum settled settle_conclude(const struct settler *settler, const struct job *job, const struct record *record,
                             void (*before_ack)(void *), void *argument)
{
    stint_status status = record->outcome.status;
    if (status == STINT_ERROR && !publish_letter(settler, job, record))
        return SETTLED_NOT;
    before_ack(argument);
    if (!acknowledge(settler, job, status != STINT_OK))
        return SETTLED_NOT;
    return status == STINT_OK ? SETTLED_OK : status == STINT_ERROR ? SETTLED_DEAD : SETTLED_CANCELLED;
}

static enum stored store_record(const struct settler *settler, const struct job *job, const struct record *record)
{
    char *subject = streams_subject(settler->stream, "done", job->id), *text = record_write(record);
    natsMsg *message = NULL;
    enum stored stored = STORED_NOT;
    if (subject && text && natsMsg_Create(&message, subject, NULL, text, (int)strlen(text)) == NATS_OK)
        stored = store(settler, message, job->id);
    natsMsg_Destroy(message);
    free(subject);
    free(text);
    return stored;
}

enum settled settle_publish(const struct settler *settler, const struct job *job, const struct record *ours,
                            void (*before_ack)(void *), void *argument)
{
    enum stored stored = store_record(settler, job, ours);
    if (stored == STORED_NEW)
        return settle_conclude(settler, job, ours, before_ack, argument);
    /* Another one's, or our own whose confirmation was lost. */
    struct record first;
    if (stored != STORED_BEFORE || !settle_find(settler, job, &first))
        return SETTLED_NOT;
    enum settled how = settle_conclude(settler, job, &first, before_ack, argument);
    record_free(&first);
    return how;
}

void settle_hand_back(const struct settler *settler, const struct job *job)
{
    if (natsMsg_Nak(job->message, NULL) == NATS_OK)
        natsConnection_FlushTimeout(settler->bus->connection, 1000);
}
