/* SPDX-License-Identifier: MIT
 *
 * Followers: what is to happen when a future resolves. A callback, a compound future that counts its members, a
 * completion queue: each puts a record of its own on the future's list, and the thread that resolves the future runs them
 * all, in the order in which they came.
 *
 * The list is the task's word `followers`: a stack of records, linked by next, with a bit for "somebody sleeps on the
 * state" in its lowest place.
 *
 *   open, 0 or more followers  ----resolve---->  CLOSED, for ever
 *
 *   sti_follow   compare-and-swap of the word with the new record on top, unless it is CLOSED: then the future has
 *                resolved, and who came too late runs its record itself. Release: who takes the list sees the record.
 *                Acquire when CLOSED is seen: the outcome is there.
 *   sleep        or-in of SLEEPERS, then a futex wait while the state is what it was before. Acquire as above: CLOSED
 *                has the bit too, so that nothing is changed then.
 *   resolve      state = RESOLVED; then exchange of the word with CLOSED: whoever was there before is run, or woken, by
 *                the resolver, and whoever comes later sees CLOSED. So each record is run once, and by one thread.
 *                acq_rel: it sees the records, and publishes the state.
 *
 * The state comes first: a sleeper whose bit the resolver has seen is woken after the state has changed, and the kernel
 * compares the state before it lets anybody sleep. The other way round, one could go to sleep between the two for ever.
 * tests/models/follow.pml tries that.
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

/* Sleep until the task has resolved: true; or until the deadline (STI_NEVER: none): false. May end too early for no
 * reason, with false. */
bool sti_follow_sleep(sti_task *task, uint64_t deadline_ns);

/* Wake who sleeps on a task that has not resolved: they look again. */
void sti_follow_rouse(sti_task *task);

/* Whether the calling thread is running followers: it is in somebody's callback. */
bool sti_is_following(void);

#endif
