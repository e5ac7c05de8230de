/* SPDX-License-Identifier: MIT
 *
 * Followers: what is to happen when a future resolves. A callback, a compound future that counts its members, a
 * completion queue: each puts a record of its own on the future's list, and the thread that resolves the future runs them
 * all, in the order in which they came.
 *
 * The list is the task's word `followers`: a stack of records, linked by next, with a bit for "somebody sleeps" in its
 * lowest place.
 *
 *   open, 0 or more followers  ----resolve---->  CLOSED, for ever
 *
 *   sti_follow   compare-and-swap of the word with the new record on top, unless it is CLOSED: then the future has
 *                resolved, and who came too late runs its record itself. Release: who takes the list sees the record.
 *                Acquire when CLOSED is seen: the outcome is there.
 *   sleep        read the bell; or-in of SLEEPERS; then a futex wait while the bell is what it was. Acquire as above:
 *                CLOSED has the bit too, so that nothing is changed then.
 *   resolve      state = RESOLVED; then exchange of the word with CLOSED: whoever was there before is run, or woken, by
 *                the resolver, and whoever comes later sees CLOSED. So each record is run once, and by one thread.
 *                acq_rel: it sees the records, and publishes the state. Where there are sleepers, ring the bell: one
 *                more, and a futex wake.
 *
 * Why no sleeper sleeps on. Its or-in and the exchange have one order. If the exchange comes first, it sees CLOSED. If it
 * comes second, the resolver sees the bit, and rings after the sleeper read the bell: either the kernel finds the bell
 * changed, or the wake finds the sleeper. tests/models/follow.pml tries all of it. The bell is not the state, because it
 * is rung for other reasons too (rescue.h).
 *
 * Running. A follower may resolve other futures, whose followers resolve others. So that no chain of them needs a stack of
 * its length, they are put in line, and the outermost resolver on this thread runs the line until it is empty. While it
 * does the thread counts as following: then nothing may wait. A record in line keeps its task alive.
 *
 * Any thread. */
#ifndef STI_EXECUTOR_FOLLOW_H
#define STI_EXECUTOR_FOLLOW_H

#include <stdbool.h>

#include "task.h"

struct sti_follower {
    struct sti_follower *next;
    sti_task *task;
    void (*run)(struct sti_follower *follower); /* the record is its own again */
};

/* Have follower->run called, once, when the task has resolved; before this returns if it has already, and the thread is
 * not following. The caller sets run and keeps the task alive until this returns. */
void sti_follow(sti_task *task, struct sti_follower *follower);

/* The same for a record of a task that need not have resolved: run it in line. */
void sti_follow_now(sti_task *task, struct sti_follower *follower);

/* For the resolver, when the state says so: close the list, wake who sleeps, run who follows. */
void sti_follow_resolve(sti_task *task);

/* Sleep until the task has resolved: true; or until the deadline (STI_NEVER: none), or until somebody rings, or for no
 * reason: false. value is what sti_follow_bell gave before the caller looked for whatever else it waits for. */
uint32_t sti_follow_bell(const sti_task *task);
bool sti_follow_sleep(sti_task *task, uint32_t value, uint64_t deadline_ns);

/* For a thread that ends tasks for others and must not be held up: from now on, what follows the futures that it resolves
 * is only put in line. The second call ends that and gives the line, linked by next, to be run by a thread that is not
 * following. */
void sti_follow_hold(void);
struct sti_follower *sti_follow_let_go(void);
void sti_follow_run(struct sti_follower *line);

/* Wake who sleeps: they look again. */
void sti_follow_ring(sti_task *task);

/* Whether the calling thread is running followers: it is in somebody's callback. */
bool sti_is_following(void);

#endif
