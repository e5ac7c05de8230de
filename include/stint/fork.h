/* SPDX-License-Identifier: MIT
 *
 * Fork and join inside one task: subtasks that may run on other workers of the pool and still belong to the task. They
 * share its budget, its token and its outcome, wherever they run: what they allocate is charged to the task, and
 * committed or rolled back with it; an interrupt of the task ends all of them.
 *
 *     stint_subtask left;
 *     stint_fork(&left, sort_half, &lower);
 *     sort_half(&upper, NULL);
 *     int error = stint_join(&left, NULL);
 *
 * A fork costs a few nanoseconds: it writes down what could be done, on a stack of the worker's own. Only when another
 * worker has nothing to do, the oldest entries of that stack are shared; what nobody has taken is called by the join
 * like a function. So fork down to pieces of a microsecond, and let the library choose what is worth moving. After Lace
 * (van Dijk and van de Pol 2014), lazy task creation (Mohr, Kranz and Halstead 1990) and leapfrogging (Wagner and
 * Calder 1993): a worker that waits in a join helps with subtasks of the same task, and never with anything else.
 *
 * What runs on other workers: forks of a task of a pool, and of its subtasks. Everywhere else a fork is good too, and
 * runs on its own thread, in its join: outside of a pool, in a scope that stint_run opened inside a task, while
 * interrupts are masked, and when thousands of forks are outstanding. A worker that becomes idle is served at the next
 * fork or join of the one that has forks to give.
 *
 * An interrupt first settles the forks of the frames it leaves: those that nobody took are dropped, the others are
 * stopped and waited for; only then are the frames left. docs/pool.md has the protocols. */
#ifndef STINT_FORK_H
#define STINT_FORK_H

#include <stint/task.h>

STINT_BEGIN_DECLS

/* A fork that has not been joined, in the caller's frame, where it must stay until the join. Its fields are the
 * library's. */
typedef struct stint_subtask {
    stint_fn *fn_;
    void *arg_;
    size_t place_; /* among the thread's forks, or one of STINT_FORK_... */
} stint_subtask;

/* Fork fn(arg): from now until the join, any worker of the pool may run it. What it reads must have been written
 * before.
 *
 * 0; EINVAL: subtask or fn is NULL. Any thread, in a task or outside. */
static inline int stint_fork(stint_subtask *subtask, stint_fn *fn, void *arg);

/* Join the fork: when this returns, it has run, in this call or elsewhere. *value is what it left there (NULL unless it
 * wrote one); value may be NULL. To be called once for each fork, by whoever forked it (on the same thread, in the same
 * task or subtask), best newest first; in another order it costs some nanoseconds more.
 *
 * The function's own code, which concerns nobody but the caller; EINVAL: subtask is NULL, was joined before, or is not
 * one of this thread's forks; ECANCELED: the task is being interrupted, and the subtask did not come to its end (seen
 * only where the interrupt has to wait, and in STINT_FAIL); ENOMEM, EAGAIN: a worker took it, and could not start it.
 *
 * A join of a fork that another worker runs is a sample point. A task, subtask or scope must join all it has forked
 * before it returns: otherwise the rest is settled as at an interrupt, and the task has failed (STINT_REASON_FAILED,
 * EINVAL), in a pool or outside. Outside of all scopes a fork that is not joined is never run, and no error tells of
 * it; nor of one that only its own thread could run, if the scope's code has left frames by longjmp since. */
static inline int stint_join(stint_subtask *subtask, void **value);

/* Drop a fork that has not been joined: if no worker has taken it, it is not run; otherwise wait for its end. What it
 * returned is forgotten. For leaving a frame by another way than the join. Does nothing for NULL, and for a
 * fork that was joined or dropped. No sample point. On the thread that forked. */
STINT_API void stint_fork_drop(stint_subtask *subtask);

STINT_END_DECLS

#include <stint/detail/fork.h>

#endif
