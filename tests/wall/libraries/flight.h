/* SPDX-License-Identifier: MIT
 *
 * A flight: one walled task on its way, and how it is to be stopped. Launched and landed by main; a thread of its own,
 * the canceller, cancels those whose time has come. */
#ifndef LIBRARIES_FLIGHT_H
#define LIBRARIES_FLIGHT_H

#include <stint/stint.h>

#include "library.h"

enum stop {
    STOP_NOT,        /* it has no limit, and must be Ok */
    STOP_DEADLINE,   /* its process is killed */
    STOP_CANCEL,     /* its process is killed */
    STOP_ALLOCATION, /* the meter in its process stops it, or refuses what it allocates */
    STOP_MEMORY,     /* the same */
};

/* The cost of a run without a limit. */
struct usual {
    uint64_t ns;
    uint64_t allocated;
    uint64_t peak;
};

/* How a flight came down. All but the last may be: what code does whose allocations are refused is its own affair. */
enum landing {
    LANDED_OK,
    LANDED_DEADLINE,
    LANDED_CANCELLED,
    LANDED_ALLOCATION,
    LANDED_MEMORY,
    LANDED_CRASH,
    LANDED_EXIT,
    LANDED_KILLED,
    LANDED_THROWN,
    LANDED_STUCK, /* an allocation was refused, and then it did not come to an end in FLIGHT_PATIENCE_NS */
    LANDED_WRONG, /* a wrong answer, or an unwanted end */
    LANDINGS,
};

/* About a hundred times a usual run. */
#define FLIGHT_PATIENCE_NS UINT64_C(200000000)

/* What its child is given. */
struct flight_input {
    const struct library *library;
    uint32_t seed;
};

struct flight {
    struct flight_input input;
    uint64_t answer; /* the right one */
    enum stop stop;
    stint_on_interrupt mode;
    size_t limit;         /* of bytes */
    uint64_t after_ns;    /* of a deadline, or from the launch to the cancellation */
    stint_future *future; /* NULL: it is on the ground */
    uint64_t due_ns;      /* when it is to be cancelled; 0: it is not. Under the canceller's lock */

    /* When it has landed. */
    stint_outcome outcome;
    stint_wall_death death; /* of a crash */
};

/* Plan a flight at random; usual is what its library takes. Its input and answer are the caller's to set. */
void flight_plan(struct flight *flight, const struct usual *usual, uint64_t *random);

/* Submit it. 0, or why not. */
int flight_launch(struct flight *flight, stint_pool *pool, stint_wall *wall);

/* Wait for it. */
enum landing flight_land(struct flight *flight);

/* A line with the plan of the flight. */
void flight_describe(const struct flight *flight, char *line, size_t size);

/* For the flights of one wall, from when it has been made to before it is destroyed. 0, or why not. */
int canceller_start(struct flight *flights, size_t count);
void canceller_stop(void);

#endif
