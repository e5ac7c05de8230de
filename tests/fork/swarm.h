/* SPDX-License-Identifier: MIT
 *
 * For tests of interrupted forks: a pool of two workers, and a task with many subtasks, of which one at least is
 * stolen. */
#ifndef TESTS_SWARM_H
#define TESTS_SWARM_H

#include "pools.h"

#define FORKS 50

static stint_pool *pool;

static inline int two_workers(void **state)
{
    (void)state;
    const stint_pool_options options = { .size = sizeof(stint_pool_options), .workers = 2 };
    return stint_pool_create(&options, &pool);
}

static inline int no_workers(void **state)
{
    (void)state;
    return stint_pool_destroy(pool);
}

#define TEST_IN_POOL(name) TEST_WITH(name, two_workers, no_workers)

static inline stint_options options_of(stint_on_interrupt how)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.on_interrupt = how;
    return options;
}

struct swarm {
    atomic_uint started;
    atomic_uint ended;
    atomic_uint own_calls; /* by the task itself, which no guard counts as ended */
    atomic_uint elsewhere; /* started by another thread than the task's own */
    atomic_bool released;  /* the task's guard has run */
    atomic_uint after;     /* subtasks that ended after that */
    pthread_t own;
};

static inline void swarm_note_start(struct swarm *swarm)
{
    atomic_fetch_add(&swarm->started, 1);
    if (!pthread_equal(pthread_self(), swarm->own))
        atomic_fetch_add(&swarm->elsewhere, 1);
}

static inline void let_one_be_stolen(struct swarm *swarm)
{
    while (atomic_load(&swarm->elsewhere) == 0) {
        stint_subtask none;
        stint_fork(&none, do_nothing, NULL);
        stint_join(&none, NULL);
        sched_yield();
        if (stint_is_interrupted())
            return;
    }
}

#endif
