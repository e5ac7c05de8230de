/* SPDX-License-Identifier: MIT
 *
 * A worker that sleeps in the midst of a task, as others see it: waits that would never end, and pools in which every
 * thread waits. */
#ifndef STI_EXECUTOR_WORKER_DEADLOCK_H
#define STI_EXECUTOR_WORKER_DEADLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stint/pool.h>

#include "executor/task/task.h"

/* --- A worker that sleeps in the midst of a task, in a wait for a future or in a join, as others see it: those that
 * make rescues and look for waits that never end (deadlock.h). It lies on the sleeper's stack. */

struct sti_offer;
struct sti_worker;

struct sti_sleeper {
    struct sti_worker *worker;
    sti_task *task;                /* that it waits for; NULL: it waits in a join */
    const struct sti_offer *offer; /* for the end of this, which a thief has */
    bool timed;                    /* it ends by itself */
    bool has_room;                 /* for one more task on its stack */
    bool has_much_room;            /* as much as to take one on without need */

    /* Under the lock of the pool's substitutes. */
    atomic_bool told;   /* one of the next two; release and acquire */
    sti_task *assigned; /* to run it; retained */
    bool hopeless;      /* to give up */
    int mark;           /* scratch */
    struct sti_sleeper *next;
    struct sti_sleeper **link;

    sti_task *beyond; /* its own: to run it over its account's maximum; retained */

    /* Under the lock of deadlock.c. */
    atomic_bool nudged; /* to look again; release and acquire */
    uint64_t seen;      /* in the look with this number */
    bool leads;         /* to the one that looks: then */
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

/* --- Waits that would never end. A worker that has slept for long in the midst of a task, in a wait or a join, puts
 * itself on a list of the process, and follows whom it waits for: the task, whoever runs that one and sleeps as well,
 * what he waits for, and so on. Two things are found in this way:
 *
 *   a circle             it waits for itself over others, and none of them has a time-out: the wait fails with EDEADLK.
 *   a slot in a circle   it waits for a task that is held back because its account has its maximum of running tasks;
 *                        and one of these waits for this very worker. That one does not run meanwhile, so the task may
 *                        be run in its place.
 *
 * Whoever comes last closes the circle, and sees it whole: all the others of it are on the list by then, and those who
 * are do not change what they run nor what they wait for before they have left it. A join cannot fail, and a task that
 * waits with a time-out runs nothing: so who finds something that is another's to do nudges him, and he looks again.
 *
 * A look follows each sleeper once, and of compound futures so many as are ever looked into (compound.h); so it takes
 * as long as there are sleepers, and no longer. What it does not find because of that bound ends by a deadline, a
 * cancellation or a shutdown.
 *
 * Any worker's thread. */

enum sti_verdict {
    STI_SLEEP_ON,
    STI_NEVER_ENDS,
    STI_RUN_BEYOND, /* sleeper->beyond */
};

/* The sleeper has slept for long, and will; and it does so no more. In between it looks whether its sleep can end; and
 * again when it has been nudged. */
void sti_deadlock_enter(struct sti_sleeper *sleeper);
enum sti_verdict sti_deadlock_look(struct sti_sleeper *sleeper);
void sti_deadlock_leave(struct sti_sleeper *sleeper);

/* No worker of some pool runs any more: wait for those who may still be looking at them. Any thread. */
void sti_deadlock_forget(void);

/* --- When every thread of a pool sleeps in a wait, and no substitute is left. Somewhere then a task is awaited that
 * nobody has begun: its waiter had no room left on its stack to run it. Some thread that waits for that waiter, over
 * however many others, has: it is assigned the task, on top of its own wait. That is no unrelated work: its wait cannot
 * end before that task has. (The idea is that of leapfrogging: Wagner and Calder 1993.) If no thread has room, or the
 * task has no slot in the queue yet, which no worker is there to empty, a waiter is told to give up.
 *
 * Under the lock of the pool's substitutes, while all of its threads sleep: so what they are running does not
 * change. */

/* Find something for one of them to do. */
void sti_rescue(stint_pool *pool);

#endif
