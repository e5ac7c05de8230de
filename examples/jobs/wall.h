/* SPDX-License-Identifier: MIT
 *
 * A wall for documents: each is parsed in a process of its own, which gets the open file and gives back what was
 * counted. */
#ifndef JOBS_WALL_H
#define JOBS_WALL_H

#include "parse.h"

#include <stint/wall.h>

/* After so many a child has earned most of what its start took. What a document can spoil for others without ending its
 * child ends with so many, too. */
#define PARSE_WALL_REUSE 128

typedef struct parse_wall_options {
    unsigned workers; /* that there will be, and so children */
    unsigned reuse;   /* documents that a child parses before it is replaced; 0: PARSE_WALL_REUSE */
    size_t memory;    /* that the kernel allows a child: more than the documents' budget */
} parse_wall_options;

/* Make one. The libraries must be ready. Main, before any thread. 0, or an errno value and a sentence in message. */
int parse_wall_create(const parse_wall_options *options, stint_wall **wall, char *message, size_t room);

/* A stint_wall_fn: input is a parse_kind, the call's descriptor the document. The reply is what it counted, a uint64_t;
 * the payload of what has failed is the detail. */
int parse_wall_run(const void *input, size_t size, stint_reply *reply);

#endif
