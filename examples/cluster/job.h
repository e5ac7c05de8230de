/* SPDX-License-Identifier: MIT
 *
 * A job as it travels: a message whose subject ends in its id, whose headers say what it is, and whose data is the
 * document. Any thread, outside of tasks. */
#ifndef CLUSTER_JOB_H
#define CLUSTER_JOB_H

#include "bus.h"
#include "parse.h"

#define JOB_KIND "Stint-Kind"       /* header: the kind's name */
#define JOB_NAME "Stint-Name"       /* header: what people call it, a path as a rule */
#define JOB_OUTCOME "Stint-Outcome" /* header of a dead letter: its record */
#define JOB_OMITTED "Stint-Omitted" /* header of a dead letter that has no room for the document: its size */

/* What of a message's size the document may not have: room for headers, in the dead letter too. */
#define JOB_HEADERS_ROOM 8192

/* A message that was taken. All points into it. */
struct job {
    natsMsg *message;
    const char *id;
    const char *name;
    bool known; /* its kind is one that is known here */
    parse_kind kind;
    uint64_t deliveries; /* with this one */
};

/* False: it is no message of the stream of jobs of this name. */
bool job_read(struct job *job, natsMsg *message, const char *stream);

/* A message with the job's document for a subject; the caller's. NULL: out of memory. */
natsMsg *job_write(const char *subject, const char *kind, const char *name, const char *data, size_t size);

#endif
