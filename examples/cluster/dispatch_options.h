/* SPDX-License-Identifier: MIT
 *
 * The command line of stint-dispatch. Main thread. */
#ifndef CLUSTER_DISPATCH_OPTIONS_H
#define CLUSTER_DISPATCH_OPTIONS_H

#include "arguments.h"
#include "bus.h"
#include "streams.h"

struct dispatch_options {
    bus_options bus;
    struct streams streams;
    const char *run; /* NULL: a new one */
    const char *json;
    bool quiet;
    bool zero_separated;
    bool create; /* make streams and consumer, and send nothing */
    char **paths;
    int path_count;
};

arguments_next dispatch_options_read(struct dispatch_options *options, int argc, char **argv);

#endif
