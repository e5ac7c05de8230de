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

#include "executor/base/state.h"

/* A worker that has slept for long in the midst of a task, in a wait or a join, puts itself on a list of the process;
 * one behind which the last thread of its pool falls asleep does so at once. Then it looks who can end its wait. Who
 * may run what is said in one place (nobody_ends in deadlock.c):
 *
 *   a task that                                 is ended by
 *   runs                                        its worker, unless that one is stuck: on the list, and in vain
 *   waits in a pool's queue                     a thread of that pool, unless all are stuck
 *   is held back by its account's maximum       as before, unless those who have the slots are stuck
 *   is due, and has no place in the queue       as before, unless its account has its maximum of waiting tasks, and
 *                                               some of those are held back like that; or all are that take the
 *                                               places of the queue
 *   waits for a time; is walled                 the clock; another process
 *   is any of some, or all; follows another;    any of them, or all; that one; the one whose turn it is; each of the
 *   is one of a serial queue, a group's         group's tasks
 *   a sleeper waits for with a time-out         the clock: nobody is stuck who has one
 *
 * At first all on the list are taken for stuck; then those are set free whose wait somebody ends who is not, until
 * there is no such one. The others never wake. So what it does about its wait, in this order:
 *
 *   it is stuck, although all tasks that nobody has begun were begun        it gets EDEADLK: a circle
 *   it waits for what its account holds back, and has a slot, or one that   it runs that, over the maximum
 *   has one waits for it, or all who have one are stuck
 *   all the pool's threads sleep, and nobody has begun what it waits for    it runs that, on what stack is left
 *   it is stuck                                                             it gets EAGAIN
 *
 * Only a sleeper whose own wait would end by that is told, and not one that waits for a circle from outside; for EAGAIN
 * a sleeper that waits for what nobody has begun is chosen first. Where there is no such sleeper, as two things are
 * missing at once, any that is stuck is told. Who is told, or runs something, nudges one of those that are stuck all
 * the same.
 *
 * So the waiter runs nothing but what it waits for: nobody else's wait can depend on its going on before that has
 * ended. A join cannot fail, and a task that waits with a time-out runs nothing: so who finds something that is
 * another's to do nudges him, and he looks again.
 *
 * Whoever comes last sees all others who are stuck: they do not change what they run nor what they wait for before they
 * have left the list. What else can leave somebody stuck nudges those whom it concerns: the last thread of a pool has
 * fallen asleep; a delayed task is put into a queue, or finds no place (sti_deadlock_stir); or something else is gone
 * (sti_deadlock_look_again). Slots of accounts do not stay with a pool that has fallen asleep (fair_queue.h).
 * tests/models/verdict.pml has the table and the slots.
 *
 * A look goes into so many compound futures as are ever looked into (compound.h). What it does not find because of that
 * bound ends by a deadline, a cancellation or a shutdown.
 *
 * Between the last thread and a sleeper there is a handshake by fences (alloc/platform/thread.h): the one stores that
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

/* The sleeper's own thread: it has slept for long, and puts itself on the list; it looks whether its sleep can end, and
 * again whenever it has been nudged; and it sleeps no more. */
enum sti_verdict sti_deadlock_look(struct sti_sleeper *sleeper);
void sti_deadlock_leave(struct sti_sleeper *sleeper);

/* If all of the pool's threads sleep, those on the list have to look again; and if a task is given, which has been put
 * into a queue and may be held back there, so do those who may have a slot of its account, and those who wait for what
 * has not begun. Any thread. */
void sti_deadlock_stir(const stint_pool *pool, sti_task *task);

/* Something that might have ended a wait is gone, or a wait has got longer, and nobody has fallen asleep by that: a
 * task that is due has been refused a place again; a task has ended that ran over its account's maximum, or that has
 * become lower; a group that somebody waits for has a task more. The caller looks for all on the list, and one of those
 * that are stuck looks again. Any thread that holds no lock of a queue or a group. */
void sti_deadlock_look_again(void);

/* No worker of some pool runs any more, and none of its tasks waits: wait for those who may still be looking at them.
 * Any thread. */
void sti_deadlock_forget(void);

#endif
