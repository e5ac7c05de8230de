/* SPDX-License-Identifier: MIT
 *
 * The end of a job: its record is published, and only when the servers have it for sure the message is acknowledged.
 * However often a job is run, by however many workers, the first record stands, and what follows goes by that one:
 *
 *   ok          the message is acked
 *   error       the job becomes a dead letter, and the message is terminated
 *   cancelled   the message is terminated
 *
 * A worker that dies between two of these steps leaves the message to another one, which finds the record and takes the
 * steps that are left. Each waits for the servers, so these are called on the thread of a job's place. */
#ifndef CLUSTER_SETTLE_H
#define CLUSTER_SETTLE_H

#include "job.h"
#include "record.h"

struct settler {
    struct bus *bus;
    const char *stream;
    const atomic_bool *hurry; /* set: no further attempt is made, and the message goes to another worker in time */
};

enum settled {
    SETTLED_OK,
    SETTLED_DEAD,
    SETTLED_CANCELLED,
    SETTLED_NOT, /* told to hurry; the message is still to be delivered again */
};

/* Whether there is a record of this job already: then it is read, and to be freed by record_free. */
bool settle_find(const struct settler *settler, const struct job *job, struct record *record);

/* Publish the record, unless there is one, and take the steps that follow from the one that stands. before_ack is
 * called right before the message is acknowledged: from then on it must not be said to be in progress. */
enum settled settle_publish(const struct settler *settler, const struct job *job, const struct record *record,
                            void (*before_ack)(void *), void *argument);

/* The steps alone, for a record that settle_find has found. */
enum settled settle_conclude(const struct settler *settler, const struct job *job, const struct record *record,
                             void (*before_ack)(void *), void *argument);

/* Give it to another worker, at once. */
void settle_hand_back(const struct settler *settler, const struct job *job);

#endif
