/* SPDX-License-Identifier: MIT
 *
 * A worker that sleeps in the midst of a task, in a wait for a future or in a join, as others see it: who makes rescues
 * (rescue.h), and who looks for waits that never end (deadlock.h). It lies on the sleeper's stack. */
#ifndef STI_EXECUTOR_SLEEPER_H
#define STI_EXECUTOR_SLEEPER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "task.h"

struct sti_offer;
struct sti_worker;

struct sti_sleeper {
    struct sti_worker *worker;
    sti_task *task;                /* that it waits for; NULL: it waits in a join */
    const struct sti_offer *offer; /* for the end of this, which a thief has */
    bool timed;                    /* it ends by itself */
    bool has_room;                 /* for one more task on its stack */
    bool has_much_room;            /* as much as to take one on without need */

    /* Under the lock of the pool's spares. */
    atomic_bool told; /* one of the next two; release and acquire */
    sti_task *errand; /* to run it; retained */
    bool hopeless;    /* to give up */
    int mark;         /* scratch */
    struct sti_sleeper *next;
    struct sti_sleeper **link;

    sti_task *beyond;      /* its own: to run it over its account's maximum; retained */

    /* Under the lock of deadlock.c. */
    atomic_bool nudged;    /* to look again; release and acquire */
    uint64_t seen;         /* in the look with this number */
    bool leads;            /* to who looks: then */
    struct sti_sleeper *next_long;
    struct sti_sleeper **link_long;
};

/* By its own thread. */
static inline bool sti_sleeper_is_told(const struct sti_sleeper *sleeper)
{
    return atomic_load_explicit(&sleeper->told, memory_order_acquire);
}

static inline bool sti_sleeper_is_nudged(const struct sti_sleeper *sleeper)
{
    return atomic_load_explicit(&sleeper->nudged, memory_order_acquire);
}

/* Have it look: told or nudged has been set, or what it waits for has come. Any thread that knows it sleeps. */
void sti_sleeper_wake(const struct sti_sleeper *sleeper);

#endif
