/* SPDX-License-Identifier: MIT
 *
 * A tracker that notes its calls, for tests of the profiler's interface. */
#ifndef TESTS_TRACKER_H
#define TESTS_TRACKER_H

#include "support.h"

/* Dense enough that every block of 8 KiB or more is sampled, except one in e to the 128. */
#define DENSE 64
#define LARGE_BLOCK ((size_t)8 << 10)

struct seen {
    int allocs;
    int promotes;
    int ends[3];
    int unknown; /* other metadata than alloc returned */
    stint_memprof_allocation last;
    void *first_frame;
    int start_inside;
    int stop_inside;
    void *answer; /* of alloc; NULL: the record itself */
    bool silent;
};

static inline void *note_alloc(const stint_memprof_allocation *allocation, void *arg)
{
    struct seen *seen = arg;
    if (allocation->size < LARGE_BLOCK || seen->silent)
        return NULL;
    seen->allocs++;
    seen->last = *allocation;
    seen->first_frame = allocation->callstack_length > 0 ? allocation->callstack[0] : NULL;
    return seen->answer != NULL ? seen->answer : seen;
}

static inline void *note_promote(void *metadata, void *arg)
{
    struct seen *seen = arg;
    seen->promotes++;
    seen->unknown += metadata != seen;
    return metadata;
}

static inline void note_dealloc(void *metadata, stint_memprof_end end, void *arg)
{
    struct seen *seen = arg;
    seen->ends[end]++;
    seen->unknown += metadata != seen;
}

static inline stint_memprof_options options_for(struct seen *seen)
{
    stint_memprof_options options = STINT_MEMPROF_OPTIONS_INIT;
    options.interval = DENSE;
    options.seed = 1;
    options.tracker = (stint_memprof_tracker){ note_alloc, note_promote, note_dealloc };
    options.arg = seen;
    return options;
}

static inline void start(struct seen *seen)
{
    stint_memprof_options options = options_for(seen);
    assert_int_equal(stint_memprof_start(&options), 0);
}

static inline void stop_profile(void)
{
    assert_int_equal(stint_memprof_stop(), 0);
}

#endif
