/* SPDX-License-Identifier: MIT
 *
 * A job as it travels; see job.h. */
#include "job.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

#define LONGEST_NAME 512

static const char *header(natsMsg *message, const char *key)
{
    const char *value = NULL;
    return natsMsgHeader_Get(message, key, &value) == NATS_OK && value ? value : "";
}

static const char *id_of(const char *subject, const char *stream)
{
    size_t length = strlen(stream);
    bool ours = strncmp(subject, stream, length) == 0 && strncmp(subject + length, ".job.", 5) == 0;
    return ours ? subject + length + 5 : NULL;
}

bool job_read(struct job *job, natsMsg *message, const char *stream)
{
    jsMsgMetaData *data = NULL;
    *job = (struct job){ .message = message, .id = id_of(natsMsg_GetSubject(message), stream) };
    if (!job->id || natsMsg_GetMetaData(&data, message) != NATS_OK)
        return false;
    job->deliveries = data->NumDelivered;
    jsMsgMetaData_Destroy(data);
    job->name = header(message, JOB_NAME);
    if (!job->name[0])
        job->name = job->id;
    job->known = parse_kind_named(header(message, JOB_KIND), &job->kind);
    return true;
}

/* A header holds one line of text: what is not printable could end it. Of a long path the end says most. */
static natsStatus set_name(natsMsg *message, const char *name)
{
    size_t length = strlen(name);
    char *clean = text_clean(length > LONGEST_NAME ? name + length - LONGEST_NAME : name, true);
    natsStatus status = clean ? natsMsgHeader_Set(message, JOB_NAME, clean) : NATS_NO_MEMORY;
    free(clean);
    return status;
}

natsMsg *job_write(const char *subject, const char *kind, const char *name, const char *data, size_t size)
{
    natsMsg *message = NULL;
    natsStatus status = natsMsg_Create(&message, subject, NULL, data, (int)size);
    if (status == NATS_OK)
        status = natsMsgHeader_Set(message, JOB_KIND, kind);
    if (status == NATS_OK)
        status = set_name(message, name);
    if (status != NATS_OK) {
        natsMsg_Destroy(message);
        return NULL;
    }
    return message;
}
