/* SPDX-License-Identifier: MIT
 *
 * What watches a worker: /healthz says whether it is of use (200, or 503 with why not) and how many of its jobs are
 * overdue, /metrics gives its counters and the library's, as OpenMetrics. libmicrohttpd, on a thread of its own, talks
 * with all that ask at once: one that is slow delays nobody. */
#ifndef CLUSTER_HEALTH_H
#define CLUSTER_HEALTH_H

#include "places.h"

struct health;

/* Listen at "ADDR:PORT". NULL: a line on standard error has said why not. */
struct health *health_open(const char *address, struct bus *bus, struct places *places);

/* From now on it is not of use: it takes no more jobs. */
void health_drain(struct health *health);

/* NULL does nothing. */
void health_close(struct health *health);

#endif
