/* SPDX-License-Identifier: MIT
 *
 * What stint-run was told. Main thread. */
#ifndef RUN_OPTIONS_H
#define RUN_OPTIONS_H

#include "arguments.h"
#include "record.h"

struct options {
    stint_budget budget; /* allocation, memory, wall_ns and cpu_ns; 0: no limit */
    unsigned files;      /* that each process may have open; 0: as many as now */
    unsigned processes;  /* with their threads, of the program and what it starts; 0: no limit */
    uint64_t kill_after_ns;
    enum record_children children;
    bool wall, quiet, json, preserve_status;
    const char *profile, *report; /* files; NULL: none */
    char **program;               /* and its arguments, up to a NULL */
};

arguments_next options_read(struct options *options, int argc, char **argv);

#endif
