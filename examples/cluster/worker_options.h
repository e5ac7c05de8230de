/* SPDX-License-Identifier: MIT
 *
 * The command line of stint-worker. Main thread. */
#ifndef CLUSTER_WORKER_OPTIONS_H
#define CLUSTER_WORKER_OPTIONS_H

#include "arguments.h"
#include "bus.h"
#include "streams.h"

#include <stint/task.h>

struct worker_options {
    bus_options bus;
    struct streams streams;
    unsigned concurrency; /* jobs in hand at once: running, or being reported */
    unsigned max_runs;    /* of a job whose workers die */
    uint64_t drain_ns;    /* after SIGTERM running jobs may go on for so long */
    stint_budget budget;
    bool in_place;
    unsigned reuse;     /* jobs that one child runs; 0: not said */
    const char *health; /* ADDR:PORT; NULL: none */
    bool verbose;
};

arguments_next worker_options_read(struct worker_options *options, int argc, char **argv);

#endif
