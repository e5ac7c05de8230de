/* SPDX-License-Identifier: MIT
 *
 * The last queries that were stopped, each with its post-mortem. The loop adds them; a chore writes them, because the
 * text of a post-mortem takes milliseconds: it is made when it is first asked for. */
#ifndef SERVER_STOPPED_H
#define SERVER_STOPPED_H

#include "request.h"

#include <stdio.h>

#define STOPPED_MAX 100

struct stopped;
struct stop;

/* What the list was at some moment, for a chore. */
struct stopped_snapshot {
    struct stop *stops[STOPPED_MAX]; /* the newest first */
    size_t count;
};

/* NULL: out of memory. */
struct stopped *stopped_create(void);
void stopped_free(struct stopped *stopped);

/* The loop: remember a query that has ended, if something stopped it. report may be NULL; the caller keeps its
 * reference. Without memory for it, it is left out. */
void stopped_add(struct stopped *stopped, const struct request *request, stint_report *report);

/* The loop: how many there have been so far. */
uint64_t stopped_count(const struct stopped *stopped);

/* The loop. */
void stopped_take_snapshot(const struct stopped *stopped, struct stopped_snapshot *snapshot);

/* A chore: as a JSON array. */
void stopped_print(const struct stopped_snapshot *snapshot, FILE *file);

/* Any thread, once. */
void stopped_drop_snapshot(struct stopped_snapshot *snapshot);

#endif
