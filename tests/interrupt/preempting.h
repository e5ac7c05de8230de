/* SPDX-License-Identifier: MIT
 *
 * A task that turns for ever without a sample point. */
#ifndef STINT_TESTS_PREEMPTING_H
#define STINT_TESTS_PREEMPTING_H

#include "support.h"

static const stint_options preemptible = { .size = sizeof(stint_options),
                                           .preemptible = true,
                                           .budget = { .wall_ns = 20 * MS } };

static volatile unsigned long turns;

static __attribute__((noreturn)) void turn_for_ever(void)
{
    for (;;)
        turns++;
}

static int turn_in_a_task(void *unused, void **value)
{
    (void)unused;
    (void)value;
    turn_for_ever();
}

#endif
