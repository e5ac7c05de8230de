/* SPDX-License-Identifier: MIT
 *
 * What a callback of a future saw: for tests of stint_future_then. */
#ifndef TESTS_CALLS_H
#define TESTS_CALLS_H

#include "pools.h"

struct call {
    atomic_uint count;
    stint_future *future;
    stint_outcome outcome;
    pthread_t thread;
    int error;
    atomic_uint *clock; /* counts calls over all */
    unsigned turn;
};

static inline void note(stint_future *future, const stint_outcome *outcome, void *arg)
{
    struct call *call = arg;
    call->future = future;
    call->outcome = *outcome;
    call->thread = pthread_self();
    if (call->clock != NULL)
        call->turn = atomic_fetch_add(call->clock, 1);
    atomic_fetch_add(&call->count, 1);
}

static inline void await_call(struct call *call)
{
    while (atomic_load(&call->count) == 0)
        gate_nap();
}

#endif
