/* SPDX-License-Identifier: MIT
 *
 * The options of the command line. Main fills them before anything else; constant from then on. */
#ifndef CHAOS_OPTIONS_H
#define CHAOS_OPTIONS_H

#include "library.h"

struct chaos_options {
    uint64_t interrupts; /* to be delivered; 0: as many as come in that time */
    double seconds;      /* at most; 0: until there were that many */
    double patience;     /* a task hangs when none has ended for so many seconds */
    uint64_t seed;
    unsigned workers;
    const struct chaos_library *library; /* this one only; NULL: all */
    int mode;                            /* a stint_on_interrupt only; -1: all */
    int reason;                          /* a chaos_reason only; -1: all */
    bool one_task;                       /* repeat one task, whose seed is given */
    uint64_t task;
    unsigned without; /* rules that are switched off (caller.h); only where the program has the switches */
    bool reference;   /* print the right answers, and what they take, and leave */
    bool cold;        /* each library is first used in a task */
    bool allow;       /* each may be left in its midst */
    bool sampled;     /* no interrupt between sample points */
    bool record;      /* print a line for the matrix; end at the first failure */
    bool verbose;
};

/* Leaves the program with status 0 for --help and 2 for unusable arguments. */
void chaos_options_read(struct chaos_options *options, int argc, char **argv);

const char *chaos_mode_name(stint_on_interrupt mode);

#endif
