/* SPDX-License-Identifier: MIT
 *
 * Shared by the tests of mappings: the mappings that a task makes, a run of the task under limits, and whether pages
 * are there. */
#ifndef TESTS_MAPPINGS_H
#define TESTS_MAPPINGS_H

#include "support.h"

#include <sys/mman.h>

#define PAGE ((size_t)getpagesize())

/* What a task does and has done; it lies on the test's stack, which is no root. */
struct work {
    size_t size;
    int error; /* that it ends with */
    char *made;
    char *more;
    int seen; /* an errno value, */
    stint_budget left;
    void *cell; /* where it notes the mapping; NULL: nowhere */
};

static inline void *map(size_t size, int protection, int flags)
{
    return mmap(NULL, size, protection, flags, -1, 0);
}

static inline char *map_memory(size_t size)
{
    return map(size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
}

static inline bool is_there(const void *address, size_t size)
{
    return msync((void *)(uintptr_t)address, size, MS_ASYNC) == 0;
}

/* Not one page. */
static inline bool is_gone(const void *address, size_t size)
{
    for (size_t at = 0; at < size; at += PAGE) {
        if (is_there((const char *)address + at, PAGE))
            return false;
    }
    return true;
}

static inline stint_outcome run_limited(stint_fn *fn, struct work *work, size_t allocation, size_t memory,
                                        stint_on_interrupt mode)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = allocation;
    options.budget.memory = memory;
    options.on_interrupt = mode;
    return run_task(fn, work, &options);
}

static inline stint_outcome run(stint_fn *fn, struct work *work)
{
    return run_limited(fn, work, 0, 64 * MIB, STINT_JUMP);
}

#endif
