/* SPDX-License-Identifier: MIT
 *
 * A worker that sleeps in the midst of a task, as others see it, and what can be done about a wait that nobody else
 * will end. */
#ifndef STI_EXECUTOR_WORKER_DEADLOCK_H
#define STI_EXECUTOR_WORKER_DEADLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stint/pool.h>
#include <sys/queue.h>

#include "executor/task/task.h"

/* A worker that has slept for long in the midst of a task, in a wait or a join, puts itself on a list of the process;
 * one behind which the last thread of its pool falls asleep does so at once. Then it looks along its wait: to the task,
 * whoever runs that one and sleeps as well, what he waits for, and so on. What it may do is decided in one place
 * (deadlock.c):
 *
 *   it waits for                                    and                                              so it
 *   itself, over others                             none of them has a time-out                      gets EDEADLK
 *   a task that is held back, as its account has    it has one of the slots itself, or one that has  runs it, over the
 *   its maximum of running ones                     waits for it, and does not run meanwhile         maximum
 *   a task of its pool that nobody has begun        all the pool's threads sleep                     runs it, on what
 *                                                                                                    stack is left
 *   the same, without stack for it; a task that     all the pool's threads sleep, and nothing from   gets EAGAIN
 *   is due and has no slot in the queue; or one     outside wakes one of them; the other pool's
 *   that another pool has in its queue              threads sleep, too, and nothing wakes those
 *
 * So the waiter runs nothing but what it waits for: nobody else's wait can depend on its going on before that has
 * ended.
 *
 * Whoever comes last closes a circle, and sees it whole: all the others of it are on the list by then, and those who
 * are do not change what they run nor what they wait for before they have left it. A join cannot fail, and a task that
 * waits with a time-out runs nothing: so who finds something that is another's to do nudges him, and he looks again.
 * All sleepers of a pool are nudged when its last thread falls asleep, and when a delayed task can be run, or has no
 * slot, while all of them sleep; and where that pool and others wait for each other only, one of those others that is
 * to be told. Those who have a slot of an account are nudged when a delayed task of that account is put into a queue.
 *
 * A look follows each sleeper once, and of compound futures so many as are ever looked into (compound.h); so it takes
 * as long as there are sleepers, and no longer. What it does not find because of that bound ends by a deadline, a
 * cancellation or a shutdown.
 *
 * Between the last thread and a sleeper there is a handshake by fences (alloc/base/thread.h): the one stores that
 * nobody holds a place, or that the task can be run, and then looks whether anybody is on the list; the other puts
 * itself on the list, and then looks at places and tasks. */

struct sti_offer;
struct sti_worker;

/* On the sleeper's stack. */
struct sti_sleeper {
    struct sti_worker *worker;     /* NULL: a thread of the program's, which is never on the list */
    sti_task *task;                /* that it waits for; NULL: it waits in a join */
    const struct sti_offer *offer; /* for the end of this, which a thief has */
    bool timed;                    /* it ends by itself */
    bool may_run;                  /* what it waits for: it has the stack */

    sti_task *found; /* what it is to run; retained */
    bool beyond;     /* its account's maximum */

    /* Under the lock of deadlock.c. */
    atomic_bool nudged; /* to look again; release and acquire */
    bool stuck;         /* as far as the present look knows */
    bool doomed;        /* it was, before anybody was supposed to be told */
    bool runs;          /* what it waits for: the present look has found so */
    bool is_listed;
    TAILQ_ENTRY(sti_sleeper) link;
};

/* By its own thread. */
static inline bool sti_sleeper_is_nudged(const struct sti_sleeper *sleeper)
{
    return atomic_load_explicit(&sleeper->nudged, memory_order_acquire);
}

enum sti_verdict {
    STI_SLEEP_ON,
    STI_NEVER_ENDS, /* EDEADLK */
    STI_GIVE_UP,    /* EAGAIN */
    STI_RUN,        /* sleeper->found */
};

/* The sleeper's own thread: it has slept for long, and will; it looks whether its sleep can end, and again whenever it
 * has been nudged; and it sleeps no more. */
void sti_deadlock_enter(struct sti_sleeper *sleeper);
enum sti_verdict sti_deadlock_look(struct sti_sleeper *sleeper);
void sti_deadlock_leave(struct sti_sleeper *sleeper);

/* If all of the pool's threads sleep, those on the list have to look again; and if a task is given, which has been put
 * into a queue and may be held back there, so do those who may have a slot of its account, and those who wait for what
 * has not begun. Any thread. */
void sti_deadlock_stir(const stint_pool *pool, sti_task *task);

/* No worker of some pool runs any more: wait for those who may still be looking at them. Any thread. */
void sti_deadlock_forget(void);

#endif
