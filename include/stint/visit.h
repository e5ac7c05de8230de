/* SPDX-License-Identifier: MIT
 *
 * What a pool is doing right now: its running and its waiting tasks, one by one. For a status page, a debugger's
 * command, a shutdown that takes too long. Numbers only are in statistics.h, and cost nothing to read. */
#ifndef STINT_VISIT_H
#define STINT_VISIT_H

#include <stint/interrupt.h>
#include <stint/pool.h>

STINT_BEGIN_DECLS

#define STINT_NAME_SIZE 64 /* of the copy of a task's name, with its end */

/* Later versions may have more at its end. */
typedef struct stint_task_view {
    const char *name;    /* a copy of the first 63 characters; NULL: it has none */
    const char *account; /* what its account is called; NULL: it has none */
    stint_priority priority;
    bool running;            /* its function has begun */
    unsigned worker;         /* running: the number of its worker, as in the thread's name; otherwise 0 */
    uint64_t age_ns;         /* since it was submitted */
    uint64_t run_ns;         /* since its function began; 0: it has not, or another task runs on top of it */
    size_t memory;           /* bytes that it holds, as they were last measured (like usage.peak); 0 as run_ns is */
    stint_budget limits;     /* as they are now (stint_future_set_budget) */
    bool overdue;            /* its deadline passed more than stint_pool_options.overdue_ns ago */
    stint_deferral deferral; /* running: what its interrupt had to wait for when it was last tried; NONE: nothing yet */
} stint_task_view;

/* Called once for each task. False: no more. The view is the caller's until it returns. */
typedef bool stint_visit_fn(const stint_task_view *view, void *arg);

/* Visit the pool's tasks: first those that run, worker by worker, on each the innermost first; then those that wait, in
 * no particular order. What is visited is a snapshot, made before the first call: each task in it was running or
 * waiting at some moment during it. visit may make any call; the pool goes on meanwhile. A task that is just being
 * moved from one queue to another, or whose submission has not returned, may be left out.
 *
 * While the snapshot is made no task in the process resolves, and no future is freed: some 100 ns for each task of this
 * pool.
 *
 * In a task, an interrupt that comes meanwhile waits until this returns.
 *
 * 0, also when visit has said false; EINVAL: pool or visit is NULL; ENOMEM (visit was not called). Any thread, in tasks
 * too. */
STINT_API int stint_pool_visit(stint_pool *pool, stint_visit_fn *visit, void *arg);

/* What on_overdue is told about an overdue task (stint_pool_options.on_overdue). */
struct stint_overdue_report {
    const stint_task_view *task; /* deferral: NONE where no interrupt has been tried: it makes no sample point */
    uint64_t late_ns;            /* since its deadline */
    bool replaced;               /* a substitute has its worker's place: the pool is as wide as it should be */
};

STINT_END_DECLS

#endif
