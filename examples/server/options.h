/* SPDX-License-Identifier: MIT
 *
 * The command line. Read once by main, and only read from then on: any thread. */
#ifndef SERVER_OPTIONS_H
#define SERVER_OPTIONS_H

#include "address.h"
#include "arguments.h"

#include <stint/stint.h>

struct options {
    const char *listen; /* as it was given */
    struct address address;
    unsigned workers; /* 0: two for each processor */
    stint_budget budget;
    unsigned queue;
    size_t global_memory; /* STINT_MEMORY_LIMIT_OF_CGROUP unless given */
    size_t statement;     /* bytes of SQL in one request */
    unsigned connections;
    uint64_t idle_ns;     /* to send a request, and to take the end of an answer */
    uint64_t drain_ns;    /* at SIGTERM */
    const char *tenants;  /* a file; NULL: one tenant, and no keys */
    const char *page_key; /* a file; NULL: the page is for loopback only */
    const char *database; /* NULL: a sample one */
    bool unbounded;
    bool wall;
    size_t answer; /* bytes of one, with wall */
};

arguments_next options_read(struct options *options, int argc, char **argv);

#endif
