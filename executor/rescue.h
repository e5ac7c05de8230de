/* SPDX-License-Identifier: MIT
 *
 * When every thread of a pool sleeps in a wait, and no spare is left. Somewhere then a task is awaited that nobody has
 * begun: its waiter had no room left on its stack to run it. Some thread that waits for that waiter, over however many
 * others, has: it gets the errand to run the task, on top of its own wait. That is no unrelated work: its wait cannot end
 * before that task has. (The idea is that of leapfrogging: Wagner and Calder 1993.) If no thread has room, a waiter is
 * told to give up.
 *
 * Under the lock of the pool's spares, while all of its threads sleep: so what they are running does not change. */
#ifndef STI_EXECUTOR_RESCUE_H
#define STI_EXECUTOR_RESCUE_H

#include <stdatomic.h>
#include <stint/pool.h>

#include "task.h"

/* A worker that waits for as long as it takes. It lies on its stack. */
struct sti_sleeper {
    struct sti_worker *worker;
    sti_task *task;     /* that it waits for */
    bool has_room;      /* for one more task on its stack */
    bool has_much_room; /* as much as to take one on without need */
    atomic_bool told;   /* one of the next two; release and acquire */
    sti_task *errand;   /* to run it; retained */
    bool hopeless;      /* to give up */
    int mark;           /* scratch */
    struct sti_sleeper *next;
    struct sti_sleeper **link;
};

/* By its own thread. */
static inline bool sti_sleeper_is_told(const struct sti_sleeper *sleeper)
{
    return atomic_load_explicit(&sleeper->told, memory_order_acquire);
}

/* Find something for one of them to do. */
void sti_rescue(stint_pool *pool);

#endif
