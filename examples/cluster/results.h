/* SPDX-License-Identifier: MIT
 *
 * The records of a run, as they come in: read from the stream by a consumer of its own, which is made again when the
 * server that had it is gone. What comes twice does no harm. Main thread. */
#ifndef CLUSTER_RESULTS_H
#define CLUSTER_RESULTS_H

#include "bus.h"
#include "record.h"

#include <stdint.h>

struct results {
    struct bus *bus;
    char *stream, *subject;
    natsSubscription *subscription;
    uint64_t heard_ns; /* when there was the last sign of life of the consumer */
};

/* hash: the last part of the job's id. The record is the callee's: to be freed, or kept. */
typedef void results_fn(void *argument, const char *hash, struct record *record);

/* False: a line on standard error has said why. */
bool results_open(struct results *results, struct bus *bus, const char *stream, const char *run);
void results_close(struct results *results);

/* Wait at most so long for the next ones, and give them to fn. How many there were. */
unsigned results_take(struct results *results, unsigned timeout_ms, results_fn *fn, void *argument);

#endif
