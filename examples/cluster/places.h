/* SPDX-License-Identifier: MIT
 *
 * The places of a worker: each holds one job at a time, from the message to its acknowledgement. A place has a thread
 * of its own, which mostly waits: for a message, for the task that the pool runs, for the servers. One more thread
 * tells the servers of the jobs in hand that they are in progress. */
#ifndef CLUSTER_PLACES_H
#define CLUSTER_PLACES_H

#include "bus.h"

#include <stdint.h>
#include <stint/task.h>

struct places;

typedef struct places_options {
    struct bus *bus;
    const char *stream;
    unsigned count;
    unsigned processors; /* jobs that run at once: the others wait for a processor or for a server */
    unsigned max_runs;
    const stint_budget *budget;
    struct stint_wall *wall; /* whose children run the jobs; NULL: in place */
    int64_t ack_wait_ns;
    bool verbose;
} places_options;

/* What has become of jobs so far. */
typedef struct places_counts {
    uint64_t ok, dead, cancelled, handed_back;
    unsigned busy;
    unsigned overdue; /* of these: jobs that should have been stopped at their deadline, and were not */
} places_counts;

/* NULL: a line on standard error has said why. */
struct places *places_open(const places_options *options);

/* How many are free; waits for one, at most timeout_ms. Only the thread that calls places_take. */
unsigned places_wait_free(struct places *places, unsigned timeout_ms);

/* Give a message to a free place: there has to be one. The message is the place's then. */
void places_take(struct places *places, natsMsg *message);

/* Cancel the job of this id, if it is here. Any thread. */
void places_cancel(struct places *places, const char *id);

/* Any thread. */
void places_read(struct places *places, places_counts *counts);

/* Whether every place is held by a job that is overdue: then it takes no other. */
bool places_are_stuck(const struct places *places, const places_counts *counts);

/* Wait for the jobs in hand, at most drain_ns; then cancel what still runs, and hand it back to the servers. */
void places_drain(struct places *places, uint64_t drain_ns);

/* After places_drain. False: a job could not be stopped, and its place is left to it. */
bool places_close(struct places *places);

#endif
