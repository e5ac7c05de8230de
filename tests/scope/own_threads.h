/* SPDX-License-Identifier: MIT
 *
 * What the tests of threads that tasks start share: a task with such threads under a limit, and what uses that up. */
#ifndef TESTS_OWN_THREADS_H
#define TESTS_OWN_THREADS_H

#include "support.h"

#define LIMIT (16 * MIB)

static inline stint_options with(stint_threads threads, size_t allocation, size_t memory)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.threads = threads;
    options.budget.allocation = allocation;
    options.budget.memory = memory;
    return options;
}

static inline stint_outcome run_with(stint_fn *fn, void *arg, stint_threads threads)
{
    stint_options options = with(threads, LIMIT, 0);
    return run_task(fn, arg, &options);
}

static inline void *allocate_for_ever(void *unused)
{
    (void)unused;
    while (keep(malloc(1000)) != NULL)
        ;
    return NULL;
}

#endif
