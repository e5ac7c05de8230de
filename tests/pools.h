/* SPDX-License-Identifier: MIT
 *
 * For tests that have several pools: making them, submitting to them, and taking what came of it. */
#ifndef TESTS_POOLS_H
#define TESTS_POOLS_H

#include <stdatomic.h>

#include "support.h"

#define MS UINT64_C(1000000) /* nanoseconds */

static inline stint_pool *make_pool(unsigned workers, unsigned substitutes)
{
    stint_pool *pool;
    const stint_pool_options options = { .workers = workers, .substitutes = substitutes };
    assert_int_equal(stint_pool_create(&pool, &options), 0);
    return pool;
}

static inline stint_future *submit_to(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options)
{
    stint_future *future;
    assert_int_equal(stint_submit(pool, fn, arg, options, &future), 0);
    return future;
}

/* A task that hangs fails the test and not the suite: its time is up when nothing else on the machine could explain it. */
static inline stint_outcome take_from(stint_future *future)
{
    stint_outcome outcome;
    assert_int_equal(stint_future_wait_for(future, 60000 * MS, &outcome), 0);
    stint_future_release(future);
    return outcome;
}

static inline void nap_ms(unsigned ms)
{
    nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 }, NULL);
}

static inline int do_nothing(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return 0;
}

/* A future that its setter may set after the reader has begun. */
static inline stint_future *await_pointer(stint_future *_Atomic *pointer)
{
    stint_future *future;
    while ((future = atomic_load(pointer)) == NULL)
        sched_yield();
    return future;
}

/* Fork and join until another thread has taken what was forked before. */
static inline void have_stolen(const atomic_uint *begun)
{
    while (atomic_load(begun) == 0) {
        stint_subtask none;
        stint_fork(&none, do_nothing, NULL);
        stint_join(&none, NULL);
        sched_yield();
    }
}

#endif
