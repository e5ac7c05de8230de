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
    stint_budget limits;     /* as it was submitted with */
    bool overdue;            /* its deadline passed more than stint_pool_options.overdue_ns ago */
    stint_deferral deferral; /* running: what its interrupt had to wait for when it was last tried; NONE: nothing yet */

    /* Running: where it is. Addresses for dladdr or a debugger, the innermost first: of the next instruction (where
     * another task runs on top of it, of its wait for that), then return addresses. depth 0: not known, see
     * stint_pool_visit. */
    void *const *frames;
    size_t depth;
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
 * Where the running tasks are is asked when it has been made: their threads write it down in a signal handler (SIGRTMAX
 * - 3), and go on. This takes each of them some 10 us, and stops none; but a poll, nanosleep or other system call that
 * every signal ends (signal(7)) returns EINTR, others are restarted. It is not known where a task is that has ended or
 * has moved on by then, whose thread does not answer within 50 ms in all (as it does while it waits for a disk, or with
 * that signal blocked), or that lies below many frames of others: 64 frames are known of each thread. A callstack ends
 * early at code without call frame tables and at a signal handler.
 *
 * In a task, an interrupt that comes meanwhile waits until this returns.
 *
 * 0, also when visit has said false; EINVAL: pool or visit is NULL; ENOMEM (visit was not called). Any thread, in tasks
 * too. */
STINT_API int stint_pool_visit(stint_pool *pool, stint_visit_fn *visit, void *arg);

/* What on_overdue is told about an overdue task (stint_pool_options.on_overdue). */
struct stint_overdue_report {
    const stint_task_view *task; /* deferral: what its interrupt would have to wait for at that moment; NONE, with a
                                    callstack: it just makes no sample point */
    uint64_t late_ns;            /* since its deadline */
    bool replaced;               /* a substitute has its worker's place: the pool is as wide as it should be */

    /* Where it was: return addresses, the innermost first, for dladdr or a debugger. depth 0: its thread did not
     * answer, as it does while it waits for a disk, for instance, or the task has just ended. */
    void *const *frames;
    size_t depth;
};

STINT_END_DECLS

#endif
