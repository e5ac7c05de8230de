/* SPDX-License-Identifier: MIT
 *
 * For tests of the pool: a task that says it has begun and then holds its worker until the test opens its gate. */
#ifndef TESTS_GATE_H
#define TESTS_GATE_H

#include <stdatomic.h>
#include <stint/interrupt.h>
#include <time.h>

struct gate {
    atomic_uint entered;
    atomic_bool open;
};

static inline void gate_nap(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 50000 }, NULL);
}

/* A task that no interrupt reaches. */
static inline int gate_hold(void *argument, void **value)
{
    struct gate *gate = argument;
    (void)value;
    atomic_fetch_add(&gate->entered, 1);
    while (!atomic_load(&gate->open))
        gate_nap();
    return 0;
}

/* A task that can be interrupted while it waits. */
static inline int gate_hold_interruptibly(void *argument, void **value)
{
    struct gate *gate = argument;
    (void)value;
    atomic_fetch_add(&gate->entered, 1);
    while (!atomic_load(&gate->open)) {
        stint_checkpoint();
        if (stint_is_interrupted())
            return 0;
        gate_nap();
    }
    return 0;
}

static inline void gate_await(struct gate *gate, unsigned count)
{
    while (atomic_load(&gate->entered) < count)
        gate_nap();
}

static inline void gate_open(struct gate *gate)
{
    atomic_store(&gate->open, true);
}

#endif
