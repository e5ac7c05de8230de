/* SPDX-License-Identifier: MIT
 *
 * A flight: one task and the thread that will stop it. Main launches and lands it; in between the worker runs it, and
 * the interrupter (a thread of its own) sets its token or cancels its future in time. */
#ifndef CHAOS_FLIGHT_H
#define CHAOS_FLIGHT_H

#include <stdatomic.h>

#include "plan.h"

/* The cost and the answer of a clean run, for each library and variant. */
struct chaos_clean {
    uint64_t sum;
    uint64_t allocated;
    uint64_t peak;
    uint64_t ns;
};

/* Whether the interrupter may stop the task: main arms it, the interrupter fires; the thread that takes it out of ARMED
 * decides. */
enum chaos_trigger { CHAOS_DISARMED, CHAOS_ARMED, CHAOS_FIRING, CHAOS_FIRED };

struct chaos_flight {
    struct chaos_plan plan;
    struct chaos_clean clean;
    char repeat[CHAOS_REPEAT_SIZE];

    stint_future *future;
    stint_token *token;
    uint64_t delay_ns;
    _Atomic uint64_t started_ns; /* by the worker; 0 until then */
    _Atomic enum chaos_trigger trigger;

    /* Written in the task, read when it has landed. */
    unsigned entered;      /* scopes inside the task's own, so far */
    unsigned runs;         /* that gave the right answer */
    bool finished;         /* the work came to its end by itself */
    const char *complaint; /* fault in the task; NULL: none */
    stint_outcome limited; /* of the scope that was to be stopped, where it is not the task's own */
};

/* To be called by each worker as it begins. */
void chaos_flight_begin_worker(void *unused, unsigned index);

/* Start and stop the interrupter for this number of flights. */
int chaos_interrupter_start(struct chaos_flight *flights, size_t count);
void chaos_interrupter_stop(void);

/* Fill a flight and submit it. The plan and clean are the caller's to have set. 0, or why not. */
int chaos_flight_launch(struct chaos_flight *flight, stint_pool *pool);

/* The number of reports of landed tasks: each is taken and given back, and some are written. By main. */
extern uint64_t chaos_flight_reports;

/* Wait for it. *outcome is that of the scope that was to be stopped. Returns a complaint, or NULL. */
const char *chaos_flight_land(struct chaos_flight *flight, stint_outcome *outcome);

/* The flight that the calling thread is in. */
extern _Thread_local const struct chaos_flight *chaos_flight_current;

#endif
