/* SPDX-License-Identifier: MIT
 *
 * The streams, and the consumer that workers share: what they are called, what shape they have, and making those that
 * are missing. With NAME for the name of the stream of jobs:
 *
 *   NAME       NAME.job.ID     the jobs, a work queue: what is acked has gone
 *   NAME_DONE  NAME.done.ID    what came of each, one message a job
 *   NAME_DEAD  NAME.dead.ID    dead letters: the jobs that ended as errors, each with why
 *              NAME.cancel.ID  not kept: who runs this job shall stop it
 *
 * Main thread. */
#ifndef CLUSTER_STREAMS_H
#define CLUSTER_STREAMS_H

#include "bus.h"

#include <stdint.h>

struct streams {
    const char *name;    /* of the stream of jobs */
    const char *durable; /* of its consumer */
    int replicas;        /* 0: as they are; of those that are made: 1 */
    int64_t max_jobs;    /* that may wait; 0: no limit */
    int64_t max_bytes;   /* that they may be; 0: no limit */
    int64_t ack_wait_ns; /* without a word from its worker a job goes to another one after so long */
    int64_t keep_ns;     /* results are kept for so long */
};

/* How many messages the shared consumer may have with workers: so many places all workers together can fill. */
#define STREAMS_MAX_PENDING 20000

/* Check all that is there, and only then make what is missing; what was made is taken back if the rest cannot be.
 * False: a line on standard error has said why, and nothing has changed. */
bool streams_make(struct bus *bus, const struct streams *streams);

/* Check that all are there and as they have to be, and read the consumer's ack_wait. False: as above. */
bool streams_check(struct bus *bus, struct streams *streams);

/* "NAME.what.id", to be freed; NULL: out of memory. Any thread. */
char *streams_subject(const char *name, const char *what, const char *id);

/* "NAME_suffix", likewise. */
char *streams_name(const char *name, const char *suffix);

#endif
