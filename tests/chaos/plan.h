/* SPDX-License-Identifier: MIT
 *
 * The plan of a task. All of it follows from the task's seed, each part from a random number of its own, so that a
 * plan stays the same when its library, mode and reason are given on the command line. */
#ifndef CHAOS_PLAN_H
#define CHAOS_PLAN_H

#include "options.h"

#define CHAOS_MODES 3

enum chaos_reason {
    CHAOS_ALLOCATION, /* an allocation limit */
    CHAOS_MEMORY,     /* a memory limit */
    CHAOS_TOKEN,      /* a token, set by another thread */
    CHAOS_CANCEL,     /* stint_future_cancel, by another thread */
    CHAOS_DEADLINE,
    CHAOS_PREEMPTION, /* a deadline, and the task may be stopped at any instruction */
    CHAOS_STACK,      /* it begins near the end of its stack, and may be stopped wherever that is reached */
    CHAOS_REASONS,
    CHAOS_NONE = CHAOS_REASONS, /* a clean run */
};

struct chaos_reason_traits {
    const char *name;
    unsigned weight;     /* how often, of the sum of all */
    stint_status status; /* how such a task ends, if it does not run through */
    stint_reason outcome;
    uint64_t longest_ns; /* the delay is shorter than this; 0: not a matter of time */
    bool preempting;     /* not only at sample points */
};

extern const struct chaos_reason_traits chaos_reasons[CHAOS_REASONS];

struct chaos_plan {
    uint64_t seed;
    const struct chaos_library *library;
    size_t library_index;
    unsigned variant;
    stint_on_interrupt mode;
    enum chaos_reason reason;
    double point;     /* in [0, 1): where in a clean run, or in the longest delay */
    unsigned scopes;  /* inside the task's own: 0 to 2 */
    unsigned limited; /* the scope that is stopped: 0 is the task's own, then inwards */
};

struct chaos_plan chaos_plan_make(uint64_t seed, const struct chaos_options *options);

/* A clean run. */
struct chaos_plan chaos_plan_clean(size_t library, unsigned variant);

/* The command line that repeats it. */
#define CHAOS_REPEAT_SIZE 160
void chaos_plan_print(const struct chaos_plan *plan, char line[CHAOS_REPEAT_SIZE]);

#endif
