/* SPDX-License-Identifier: MIT
 *
 * For tests of the stack's end: a task that recurses for ever. */
#ifndef TESTS_INTERRUPT_RECURSING_H
#define TESTS_INTERRUPT_RECURSING_H

#include "support.h"

static volatile bool never;

/* Without allocating. A loop would do for a compiler that saw through it. */
static __attribute__((noinline)) int recurse(volatile int depth)
{
    return never ? depth : recurse(depth + 1) + depth;
}

static inline int recurse_for_ever(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return recurse(0) > 0 ? EIO : EINVAL;
}

#endif
