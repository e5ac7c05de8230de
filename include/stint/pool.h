/* SPDX-License-Identifier: MIT
 *
 * The pool: worker threads that run submitted tasks, each in a scope of its own.
 *
 *     #include <stdio.h>
 *     #include <stint/pool.h>
 *
 *     static int work(void *number, void **value)
 *     {
 *         (void)value;
 *         return *(int *)number == 7 ? 0 : 1;
 *     }
 *
 *     int main(void)
 *     {
 *         int number = 7;
 *         stint_pool_options options = STINT_POOL_OPTIONS_INIT;
 *         options.workers = 2;
 *         stint_pool *pool;
 *         stint_future *future;
 *         stint_outcome outcome;
 *         if (stint_pool_create(&options, &pool) != 0)
 *             return 1;
 *         if (stint_submit(pool, work, &number, NULL, &future) == 0) {
 *             stint_future_wait(future, &outcome);
 *             printf("%s\n", stint_status_name(outcome.status));
 *             stint_future_release(future);
 *         }
 *         return stint_pool_destroy(pool);
 *     }
 *
 * Each worker has a deque of its own, from which idle workers steal (Chase and Lev 2005); tasks that come from outside
 * wait in a queue in front of them. */
#ifndef STINT_POOL_H
#define STINT_POOL_H

#include <limits.h>
#include <stdbool.h>

#include <stint/detail/api.h>
#include <stint/future.h>
#include <stint/interrupt.h>
#include <stint/task.h>

STINT_BEGIN_DECLS

#define STINT_FOREVER UINT64_MAX /* a time-out that never comes */

/* Told about an overdue task: see stint_pool_options.on_overdue, and stint_pool_visit. */
typedef struct stint_overdue_report stint_overdue_report;
typedef void stint_overdue_fn(const stint_overdue_report *report, void *arg);

/* Called on the thread of a worker or a substitute: stint_pool_options.worker_begins and worker_ends. */
typedef void stint_worker_fn(void *worker_data, unsigned index);

/* How to make a pool. Made by STINT_POOL_OPTIONS_INIT; it can grow: stint.h. */
typedef struct stint_pool_options {
    size_t size; /* sizeof(stint_pool_options) */

    /* Worker threads; 0: one for each processor that the calling thread may run on, but no more than the quota of its
     * control group pays for (cpu.max, rounded up). At most 1024. */
    unsigned workers;

    /* The report level of tasks that do not end Ok, for tasks whose own options.report is STINT_REPORT_NONE
     * (observe.h). */
    stint_report_level report;

    /* Tasks that may wait at once in the submission queue; 0: 4096. Rounded up to a power of two, at least 2, at most
     * 2^24. Tasks that have an account or a priority wait beside it, in as many slots again (not rounded). There the
     * tasks of one account and priority may take at most eight times as many slots as are free. */
    size_t queue_capacity;

    /* Worker threads are called name/0, name/1, ... (15 characters are kept); NULL: "stint". Copied. */
    const char *name;

    /* Keep each worker on one processor of those that the calling thread may run on, one after the other.
     * Substitutes, which stand in for one worker and then for another, may run on all of these. */
    bool pinned;

    /* Spare workers that may stand in for those that sleep in a blocking region or in a wait for a future;
     * 0: 64; STINT_NO_SUBSTITUTES: none. At most 1024. Each is started when it is needed, and ends when nobody has
     * needed it for a second, or with the pool; it is called like a worker, with the next number, which is used
     * again. */
    unsigned substitutes;

    /* While the process has more than seven eighths of its memory limit (memory.h) in memory, and any task runs in it,
     * delay each task that has not begun, by up to 100 ms: so running tasks can end before others ask for memory, and
     * fewer have to be stopped. Without such a limit it makes no difference. */
    bool hold_near_memory_limit;

    unsigned flags; /* 0 or STINT_ALLOW_UNMETERED (stint.h): start the pool; each task has flags of its own */

    /* A task is overdue when it still runs so many nanoseconds after its deadline (budget.wall_ns or run_ns): because
     * it makes no sample points, is masked, holds a lock, or runs in a library. Then a substitute worker, if one is
     * left, takes its worker's place until it ends, so the pool keeps its width. And on_overdue (may be NULL) is called
     * with a report and overdue_arg, once for the task, on a thread that the pool has for such calls. It must not block
     * for long, as other reports and the callbacks of expired tasks wait behind it; it may do what a callback of
     * stint_future_then may. 0: no task is overdue, and this costs nothing. */
    uint64_t overdue_ns;
    stint_overdue_fn *on_overdue;
    void *overdue_arg;

    /* Called on the thread of each worker and each substitute, with worker_data and the number in its name: as it
     * begins, before it runs any task, and as it ends, after the last one. For what a library keeps for each thread, a
     * profiler's registration, a scheduling priority. They are in no task's scope; like callbacks they must not wait
     * for a future or shut a pool down (EDEADLK), and must return. NULL: nothing is called. stint_pool_create may have
     * returned before a worker begins; when stint_pool_shutdown returns 0, all have ended. */
    stint_worker_fn *worker_begins;
    stint_worker_fn *worker_ends;
    void *worker_data;

    /* Bytes of stack of each worker and each substitute; 0: the system's default (ulimit -s as a rule). Rounded up to
     * whole pages. EINVAL: less than 64 KiB, or than what the system has for its least (PTHREAD_STACK_MIN). A task that
     * uses up what its frames leave of it ends with STINT_REASON_STACK, where it may be left (task.h); below it lie 128
     * KiB that take up addresses only. */
    size_t stack_size;
} stint_pool_options;

#define STINT_NO_SUBSTITUTES UINT_MAX

#define STINT_POOL_OPTIONS_INIT STINT_SIZED_INIT_(stint_pool_options)

/* Start a pool; there may be any number of them. options may be NULL: STINT_POOL_OPTIONS_INIT. It is the caller's, to
 * be destroyed.
 *
 * The pool's threads block all signals but those of faults and the library's own, so that the program's handlers run on
 * its own threads. So a signal to the process waits for a thread of the program's: where the last of these has ended by
 * pthread_exit and the pool lives on, SIGTERM and its like do nothing, not even what they do by default. Keep a thread
 * for them (sigwait), or unblock in options->worker_begins what shall end the process.
 *
 * 0; EINVAL: pool is NULL, an option is out of its range, or the options have no size; E2BIG: they set one that this
 * library is too old to know; ENOMEM; ENOTSUP: as stint_run; EAGAIN: the system allows no more threads (those that were
 * started have ended). Any thread. */
STINT_API int stint_pool_create(const stint_pool_options *options, stint_pool **pool);

/* Submit fn(arg) as a task with options (NULL: no limits; copied). *future is the caller's, to be released; it is set
 * before the task can start, and NULL after any error. The wall limit counts from here. Never
 * blocks. arg is not copied: it has to live until the future has resolved; stint_future_release and stint_future_cancel
 * return earlier. Inside a task of the pool, a new task without account and priority goes to that worker's own deque,
 * where idle workers steal it.
 *
 * Which task is next. The accounts that have tasks waiting share the time of the pool's workers by their
 * weights (account.h), in pools of any size: what counts is for how long a task occupies a worker, so not while it
 * waits for a future, or is in a blocking region. The tasks without an account take part as if they had
 * one of their own. Next is a task of the account that has had the least time, by its weight: start-time fair queueing
 * (Goyal, Vin and Cheng 1996). As it is not known beforehand how long a task will take, each is charged what the last
 * ones of its account took, and that is corrected at its end (2DFQ: Mace and others 2016). If two accounts always have
 * tasks waiting, their shares differ by at most one longest task for each worker. An account that had nothing waiting
 * for a while saves nothing up. While no account has a task waiting, none is charged.
 *
 * 0.
 * EINVAL: pool, fn or future is NULL, or the options are none that stint_run takes. E2BIG, ENOTSUP: as stint_run.
 * EAGAIN: the queue is full (nothing was queued; wait for a future and try again). EDQUOT: the account, or one above
 * it, has its maximum of waiting tasks (nothing was queued). ESHUTDOWN: the pool is being shut down. ENOMEM. Any
 * thread, also in tasks and callbacks. */
STINT_API int stint_submit(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options,
                           stint_future **future);

/* The same, but where the queue is full, or the account has its maximum of waiting tasks, wait for a slot, at most
 * timeout_ns nanoseconds (STINT_FOREVER: as long as it takes). Waiters are served first in, first out; as long as one
 * waits with a task without account and priority, stint_submit refuses such tasks. The wall limit counts from the call.
 * In a task of another pool, a substitute takes the place of the task that waits, and an interrupt ends the wait.
 *
 * As stint_submit, but in place of EAGAIN and EDQUOT: ETIMEDOUT; ECANCELED: the calling task, in STINT_FAIL, is to
 * stop; or, at once, EDEADLK: called in a task of this pool, whose workers might all come to wait like that, or in a
 * callback. Any thread. */
STINT_API int stint_submit_wait(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options,
                                uint64_t timeout_ns, stint_future **future);

typedef enum stint_shutdown {
    STINT_SHUTDOWN_DRAIN = 0, /* accept nothing more, run what is queued to its end */
    STINT_SHUTDOWN_CANCEL,    /* accept nothing more, resolve what is queued as Cancelled, interrupt what runs */

    /* As STINT_SHUTDOWN_DRAIN, but when the time is up, cancel what is left and wait for its end as long again. */
    STINT_SHUTDOWN_DRAIN_THEN_CANCEL,
} stint_shutdown;

/* Shut the pool down and wait until its workers have ended, at most timeout_ns nanoseconds (STINT_FOREVER: as long as
 * it takes). STINT_SHUTDOWN_DRAIN_THEN_CANCEL gives draining so much time, and then the cancelled tasks as much again,
 * a second at least, to notice that and to end. With a time limit it always returns; tasks that mask their interrupts,
 * hold a lock, or make no sample points may be left then, and stint_pool_read counts them as running. May be called
 * again: after a time-out, with more time or with STINT_SHUTDOWN_CANCEL; and after success, when it returns 0 at once.
 *
 * 0.
 * EINVAL: pool is NULL or how is no known value.
 * EDEADLK: called in a task of this pool, or in a callback.
 * ETIMEDOUT: workers are still running, and the shutdown goes on.
 * ECANCELED: the shutdown goes on, but the calling task, in STINT_FAIL, is to stop (in the other modes its interrupt is
 *   delivered here).
 * Any thread that is not one of the pool's. */
STINT_API int stint_pool_shutdown(stint_pool *pool, stint_shutdown how, uint64_t timeout_ns);

/* Shut the pool down by cancelling, if that has not been done, wait for its workers, and free it. Futures stay valid
 * until they are released. No other call on the pool may be under way or follow.
 *
 * 0, also for NULL; EDEADLK: called in a task of this pool, or in a callback (nothing was done); ECANCELED: as
 * stint_pool_shutdown (the pool is not freed). Any thread that is not one of the pool's. */
STINT_API int stint_pool_destroy(stint_pool *pool);

/* The same, but wait for the workers no longer than timeout_ns nanoseconds. If tasks still run then, which nothing has
 * ended (stint_pool_visit tells which, and what defers their interrupts; call it before), the pool is left to them: it
 * is freed by the last of them, when that ends. Their futures resolve then, as ever; callbacks and on_overdue may come
 * until then. A task that never ends keeps its thread, its memory and its locks until the process ends. *left (may be
 * NULL) is how many workers still run a task.
 *
 * 0, also for NULL: all have ended, and the pool is freed; ETIMEDOUT: it is left to them, and no call on it may follow;
 * EDEADLK and ECANCELED: as stint_pool_destroy. Any thread that is not one of the pool's. */
STINT_API int stint_pool_destroy_within(stint_pool *pool, uint64_t timeout_ns, unsigned *left);

/* How many workers the pool has; 0 for NULL. Any thread. */
STINT_API unsigned stint_pool_workers(const stint_pool *pool);

/* The pool of which the calling thread is a worker or a substitute: the one that runs the calling task, to submit more
 * tasks to it without handing it down. In a callback, that of the thread that resolved the future. It lives at least
 * until the task has ended, or the callback has returned. NULL: the thread is no worker. Any thread. */
STINT_API stint_pool *stint_pool_current(void);

/* --- Blocking regions --------------------------------------------------------------------------------------------- */

/* Blocking regions: a task says that it is about to sleep, in a system call or on somebody else's lock, and a
 * substitute worker takes its place, so that the processors have something to do. The idea is that of Java's
 * ManagedBlocker, and of Go's scheduler, which gives a thread's processor to another when it enters a system call. */

/* Begin and end a blocking region, in which the calling task runs nothing that needs a processor. If fewer of the
 * pool's workers are at work than it has, and a substitute is left (stint_pool_options.substitutes), that takes the
 * task's place until the region ends. The price is two uncontended locks, and the start of a thread the first times:
 * worth it where the sleep may last a millisecond or more.
 *
 * Tasks are never begun on more threads at a time than the pool has workers. But a task goes on as soon as its region
 * ends, without waiting for a place: until the substitute's present task has ended, both run.
 *
 * A region belongs to the innermost scope of the calling thread. Regions nest: the outermost pair counts. An end
 * without a begin in the same scope does nothing. A region that is open when its scope ends, also by an interrupt, ends
 * with it. Any thread; both do nothing outside of a pool's tasks, such as in stint_run on a thread of the program.
 *
 * A sleeping thread makes no sample points. For an interrupt to reach the task during the sleep, it needs a hook
 * (interrupt.h), or to be preemptible. stint_blocking_end is a sample point: an interrupt that is due is delivered
 * there. */
STINT_API void stint_blocking_begin(void);
STINT_API void stint_blocking_end(void);

/* --- Statistics --------------------------------------------------------------------------------------------------- */

/* What a pool has done so far, and what it has to do. Each worker counts on cache lines of its own, with plain stores,
 * so that counting costs it next to nothing, and a reader does not slow it down. */

#define STINT_REASONS_MAX 32                 /* no stint_reason is as large as this */
#define STINT_NEGLECT_NS UINT64_C(100000000) /* 100 ms */

/* Made by STINT_POOL_STATISTICS_INIT before they are read; they can grow: stint.h. */
typedef struct stint_pool_statistics {
    size_t size; /* sizeof(stint_pool_statistics) */

    /* Tasks that have resolved, by their reason (STINT_REASON_NONE: Ok). A task that was cancelled before it started
     * counts when its slot in the queue is given back: for tasks without account and priority, when a worker takes
     * it. */
    uint64_t outcomes[STINT_REASONS_MAX];

    size_t queued;    /* entries of the submission queue and of the workers' deques: those of cancelled tasks too */
    size_t waiting;   /* tasks with an account or a priority that wait beside it */
    size_t held_back; /* of these, those whose account had its maximum of running tasks when it was last looked at */

    unsigned running; /* workers that are in the midst of a task, or of a part of one: what a shutdown waits for */
    unsigned asleep;  /* of these, those that sleep: in a blocking region, a wait or a join */

    /* Whether tasks wait although a worker is free: how many tasks without account had waited for STINT_NEGLECT_NS when
     * they began, while a worker was idle and none had been woken; and the longest such time of all, in nanoseconds.
     * The time for which a woken worker gets no processor does not count: that is the load of the machine. */
    uint64_t neglected;
    uint64_t longest_neglect_ns;

    unsigned substitutes;  /* substitute workers that there have been at once (stint_pool_options.substitutes): an
                            * idle one ends after a second, and its number is used again */
    unsigned substituting; /* of these, those that stand in for a task that sleeps */
    uint64_t replaced;     /* times that one of them took the place of a task that fell asleep */
    uint64_t unreplaced;   /* times that its place stayed empty, as none was left or could be started */
} stint_pool_statistics;

#define STINT_POOL_STATISTICS_INIT STINT_SIZED_INIT_(stint_pool_statistics)

/* Made by STINT_WORKER_STATISTICS_INIT before they are read; they can grow: stint.h. */
typedef struct stint_worker_statistics {
    size_t size;     /* sizeof(stint_worker_statistics) */
    uint64_t tasks;  /* that it has begun */
    uint64_t steals; /* of these, taken from another worker */
    uint64_t parks;  /* times that it found no task and went to sleep */
    size_t queued;   /* entries of its own deque */
} stint_worker_statistics;

#define STINT_WORKER_STATISTICS_INIT STINT_SIZED_INIT_(stint_worker_statistics)

/* Read the numbers of a pool, or of its worker number index (substitutes come after the pool's own). Each number is
 * right by itself, at some moment during the call. A task is counted in `outcomes` before its future resolves, if its
 * function was called.
 *
 * 0; EINVAL: an argument is NULL, *statistics has no size, or there is no such worker. Any thread. */
STINT_API int stint_pool_read(const stint_pool *pool, stint_pool_statistics *statistics);
STINT_API int stint_pool_read_worker(const stint_pool *pool, unsigned index, stint_worker_statistics *statistics);

/* --- Tasks that run now ------------------------------------------------------------------------------------------- */

/* What a pool is doing right now: its running and its waiting tasks, one by one. For a status page, a debugger's
 * command, a shutdown that takes too long. Numbers only are those of stint_pool_read, and cost nothing to read. */

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
