/* SPDX-License-Identifier: MIT
 *
 * The command line. */
#ifndef BATCH_OPTIONS_H
#define BATCH_OPTIONS_H

#include "arguments.h"

#include <stint/task.h>

struct options {
    unsigned workers;
    stint_budget budget;
    bool unbounded; /* and so in place */
    bool in_place;
    unsigned reuse; /* documents that one child parses; 0: not said */
    bool quiet;
    bool zero_separated;
    const char *json; /* NULL: none wanted; "-": standard output */
    const char *why;  /* a folder; NULL: none wanted */
    char **paths;
    int path_count;
};

arguments_next options_read(struct options *options, int argc, char **argv);

#endif
