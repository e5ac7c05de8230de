/* SPDX-License-Identifier: MIT
 *
 * What stint-run and the program that it runs know of each other: a page that both have mapped. stint-run writes the
 * first part before the program begins; the program's preloaded module (preload.c) writes the rest. */
#ifndef RUN_RECORD_H
#define RUN_RECORD_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stint/stint.h>
#include <sys/types.h>

#define RECORD_VARIABLE "STINT_RUN_RECORD"   /* in the environment: the record's path */
#define RECORD_PRELOADED "STINT_RUN_PRELOAD" /* what LD_PRELOAD was before stint-run; unset: it was not set */
#define RECORD_MAGIC UINT64_C(0x31306e7572746e69)
#define RECORD_MESSAGE_ROOM 256

/* What becomes of the processes that the program starts. */
enum record_children {
    RECORD_INHERIT, /* each has the same limits */
    RECORD_SHARE,   /* together they have what the limits leave */
    RECORD_FREE,    /* they have none */
};

enum record_state {
    RECORD_NOT_LOADED, /* the module did not come to the program's main function */
    RECORD_RUNS,
    RECORD_REFUSED, /* the program cannot be metered: message says why */
    RECORD_ENDED,   /* the outcome is there */
};

struct record {
    uint64_t magic;
    pid_t pid; /* the program's */
    enum record_children children;
    bool is_walled;      /* a program that cannot be metered is run all the same: the kernel limits it */
    stint_budget budget; /* of bytes */
    unsigned files;      /* descriptors of each process, once its libraries are loaded; 0: as many as before */
    char profile[PATH_MAX];
    char report[PATH_MAX]; /* "": none */

    atomic_int state;
    char message[RECORD_MESSAGE_ROOM];
    stint_reason reason;
    stint_usage usage;
    int output_error; /* of the profile or the report: an errno value */

    /* Processes that the program started and that were metered, when they ended. */
    _Atomic uint64_t children_ended;
    _Atomic uint64_t children_allocated;
    atomic_int children_reason; /* the first limit that one of them passed */

    atomic_uint children_unmetered; /* that started, and could not be metered */
    atomic_uint threads;            /* that metered processes have started */
};

#endif
