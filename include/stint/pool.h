/* SPDX-License-Identifier: MIT
 *
 * The pool has worker threads that run submitted tasks, each in a scope of its own.
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
 * Each worker has a deque of its own, from which idle workers steal (Chase and Lev 2005). Tasks that come from outside
 * wait in a queue in front of the workers.
 *
 * The next task. The accounts that have tasks waiting share the time of the pool's workers by their weights
 * (account.h), in pools of any size. What counts is for how long a task occupies a worker; so the time in which it
 * waits for a future, or is in a blocking region, does not count. The tasks without an account take part as if they had
 * one of their own. The next task comes from the account that has had the least time, by its weight: this is start-time
 * fair queueing (Goyal, Vin and Cheng 1996). Nobody knows beforehand how long a task will take. So each is charged what
 * the last ones of its account took; where it waits it is charged what it has had beyond that, and at its end it is
 * corrected (2DFQ: Mace and others 2016). If two accounts always have tasks waiting, their shares differ by at most one
 * longest task for each worker. An account that had nothing waiting for a while saves nothing up. While no account has
 * a task waiting, none is charged. */
#ifndef STINT_POOL_H
#define STINT_POOL_H

#include <limits.h>
#include <stdbool.h>

#include <stint/detail/api.h>
#include <stint/future.h>
#include <stint/interrupt.h>
#include <stint/task.h>

STINT_BEGIN_DECLS

/* --- Making a pool ------------------------------------------------------------------------------------------------ */

/* A time-out that never comes. */
#define STINT_FOREVER UINT64_MAX

/* Is told about an overdue task. stint_pool_options.on_overdue says when and where. */
typedef struct stint_overdue_report stint_overdue_report;
typedef void stint_overdue_fn(const stint_overdue_report *report, void *arg);

/* Is called as a worker's thread begins or ends, on that thread. stint_pool_options.worker_begins says more. */
typedef void stint_worker_fn(void *worker_data, unsigned index);

/* How to make a pool. STINT_POOL_OPTIONS_INIT makes the struct, with defaults; it can grow (stint.h). */
typedef struct stint_pool_options {
    size_t size; /* sizeof(stint_pool_options) */

    /* Worker threads, at most 1024; 0: one for each processor that the calling thread may run on, but no more than the
     * quota of its control group pays for (cpu.max, rounded up). */
    unsigned workers;

    /* What the reports of tasks tell that do not end Ok and whose own options.report is STINT_REPORT_NONE
     * (observe.h). */
    stint_report_level report;

    /* Tasks that may wait at once in the submission queue; 0: 4096. The number is rounded up to a power of two, at
     * least 2 and at most 2^24. Tasks that have an account or a priority wait beside the queue, in as many slots again
     * (not rounded). There the tasks of one account and priority may take at most eight times as many slots as are
     * free. */
    size_t queue_capacity;

    /* The name of the worker threads: name/0, name/1 and so on, of which 15 characters are kept; NULL: "stint". The
     * string is copied. */
    const char *name;

    /* True: each worker stays on one processor, of those that the calling thread may run on, one after the other.
     * Substitutes, which stand in for one worker and then for another, may run on all of these. */
    bool pinned;

    /* Spare workers, at most 1024, that may stand in for workers that sleep in a blocking region or in a wait for a
     * future; 0: 64; STINT_NO_SUBSTITUTES: none. A substitute starts when it is needed, and ends with the pool, or when
     * nobody has needed it for a second. It is named like a worker, with the next number, which is used again. */
    unsigned substitutes;

    /* True: while the process has more than seven eighths of its memory limit (memory.h) in memory, and any task runs
     * in it, each task that has not begun is delayed by up to 100 ms. So running tasks can end before others ask for
     * memory, and fewer have to be stopped. Without such a limit the option makes no difference. */
    bool hold_near_memory_limit;

    unsigned flags; /* 0, or STINT_ALLOW_UNMETERED: start the pool all the same. Each task has flags of its own */

    /* When a task is overdue: nanoseconds after its deadline (budget.wall_ns or run_ns) at which it still runs, because
     * it makes no sample points, is masked, holds a lock, or runs in a library; 0: never, and that costs nothing. A
     * substitute worker, if one is left, takes the place of the overdue task's worker until the task ends, so the pool
     * keeps its width. on_overdue (which may be NULL) is called once for the task with a report and overdue_arg, on a
     * thread that the pool has for such calls. It may do what a callback of stint_future_then may do, and must not
     * block for long, as other reports and the callbacks of expired tasks wait behind it. */
    uint64_t overdue_ns;
    stint_overdue_fn *on_overdue;
    void *overdue_arg;

    /* Functions that run on the thread of each worker and each substitute, with worker_data and the number in the
     * thread's name: one as the thread begins, before any task, and one as it ends, after the last task. They are for
     * what a library keeps for each thread, a profiler's registration, or a scheduling priority. They are in no task's
     * scope. Like callbacks they must return, and must not wait for a future or shut a pool down (EDEADLK). NULL:
     * nothing is called. stint_pool_create may return before a worker begins. When stint_pool_shutdown returns 0, all
     * have ended. */
    stint_worker_fn *worker_begins;
    stint_worker_fn *worker_ends;
    void *worker_data;

    /* Bytes of stack of each worker and each substitute, rounded up to whole pages: at least 64 KiB, and what the
     * system needs (PTHREAD_STACK_MIN); 0: the system's default (as a rule ulimit -s). A task that uses up what its
     * frames leave of it ends with STINT_REASON_STACK, where it may be left (task.h). Below the stack lie 128 KiB that
     * take up addresses only. */
    size_t stack_size;
} stint_pool_options;

#define STINT_NO_SUBSTITUTES UINT_MAX

#define STINT_POOL_OPTIONS_INIT STINT_SIZED_INIT_(stint_pool_options)

/* Start a pool. A program may have any number of them. options may be NULL, which means STINT_POOL_OPTIONS_INIT. The
 * caller owns the pool, and destroys it with stint_pool_destroy.
 *
 * The pool's threads block all signals except those of faults and the library's own, so the program's handlers run on
 * its own threads. A signal to the process therefore waits for a thread of the program. Where the last of these has
 * ended by pthread_exit and the pool lives on, SIGTERM and its like do nothing, not even what they do by default. Such
 * a program keeps a thread for signals (sigwait), or unblocks in options->worker_begins what shall end the process.
 *
 * Returns 0, or:
 *   EINVAL   pool is NULL, an option is out of its range, or the options have no size
 *   E2BIG    the options set a field that this library is too old to know
 *   ENOMEM   there is no memory
 *   ENOTSUP  stint cannot meter this program, and options->flags do not allow that (stint_link_check); or mimalloc
 *            cannot be used (stint_backend_version); or options->pinned is true, and libc is musl
 *   EAGAIN   the system allows no more threads; those that were started have ended */
STINT_API int stint_pool_create(const stint_pool_options *options, stint_pool **pool);

/* --- Submitting tasks --------------------------------------------------------------------------------------------- */

/* Submit fn(arg) as a task. The call never blocks. options are copied; NULL means no limits. The caller owns *future,
 * and releases it with stint_future_release. It is set before the task can start, and NULL after an error. arg is not
 * copied: what it points to has to live until the future has resolved, and stint_future_release and stint_future_cancel
 * return earlier. The wall limit counts from this call.
 *
 * Inside a task of the pool, a new task without account and priority goes to that worker's own deque, from where idle
 * workers steal it. All other tasks go to the queue; pool.h says which is next.
 *
 * Returns 0, or:
 *   EINVAL     pool, fn or future is NULL, or the options are refused as by stint_run
 *   E2BIG      the options set a field that this library is too old to know
 *   ENOTSUP    as stint_run
 *   EAGAIN     the queue is full, or the tasks of the account and priority have their part of it; the program waits for
 *              a future and tries again
 *   EDQUOT     the account, or one above it, has its maximum of waiting tasks
 *   ESHUTDOWN  the pool is being shut down
 *   ENOMEM     there is no memory, or the allocation limit of the calling task leaves none */
STINT_API int stint_submit(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options,
                           stint_future **future);

/* Submit a task, and wait for a slot if there is none. That is so where the queue is full, or the account has its
 * maximum of waiting tasks. The wait takes at most timeout_ns nanoseconds (STINT_FOREVER: as long as it takes). In
 * everything else this is stint_submit; the wall limit counts from the call.
 *
 * Those who wait are served first in, first out. As long as one of them waits with a task without account and priority,
 * stint_submit refuses such tasks. In a task of another pool, a substitute takes the place of the task that waits, and
 * an interrupt ends the wait.
 *
 * Returns 0, or:
 *   EINVAL, E2BIG, ENOTSUP, ESHUTDOWN, ENOMEM  as stint_submit
 *   ETIMEDOUT  no slot was free in time
 *   ECANCELED  the calling task, in STINT_FAIL, is to stop
 *   EDEADLK    there is no slot now, and the call is in a task of this pool, whose workers might all come to wait like
 *              that, or in a callback */
STINT_API int stint_submit_wait(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options,
                                uint64_t timeout_ns, stint_future **future);

/* --- Ending a pool ------------------------------------------------------------------------------------------------ */

/* How stint_pool_shutdown ends a pool. In each way the pool accepts nothing more. */
typedef enum stint_shutdown {
    STINT_SHUTDOWN_DRAIN = 0, /* what is queued runs to its end */
    STINT_SHUTDOWN_CANCEL,    /* what is queued resolves as Cancelled, and what runs is interrupted */

    /* The pool drains until the time is up. Then what is left is cancelled, and its end is waited for as long again. */
    STINT_SHUTDOWN_DRAIN_THEN_CANCEL,
} stint_shutdown;

/* Shut the pool down, and wait until its workers have ended. The wait takes at most timeout_ns nanoseconds
 * (STINT_FOREVER: as long as it takes). STINT_SHUTDOWN_DRAIN_THEN_CANCEL gives so much time to draining, and as much
 * again, a second at least, to the cancelled tasks, so that they notice and end.
 *
 * With a time limit the call always returns. Tasks that mask their interrupts, hold a lock, or make no sample points
 * may be left then, and stint_pool_read counts them as running. The call may be repeated: after a time-out, with more
 * time or with STINT_SHUTDOWN_CANCEL; and after success, when it returns 0 at once.
 *
 * Threads: any thread that is not one of the pool's.
 *
 * Returns 0, or:
 *   EINVAL     pool is NULL, or how is no known value
 *   EDEADLK    the call is in a task of this pool, or in a callback
 *   ETIMEDOUT  workers are still running, and the shutdown goes on
 *   ECANCELED  the calling task, in STINT_FAIL, is to stop, and the shutdown goes on (in the other modes the task's
 *              interrupt is delivered here) */
STINT_API int stint_pool_shutdown(stint_pool *pool, stint_shutdown how, uint64_t timeout_ns);

/* Destroy the pool: shut it down by cancelling, if that has not been done, wait for its workers, and free it. Futures
 * stay valid until they are released. No other call on the pool may be under way or follow.
 *
 * Threads: any thread that is not one of the pool's.
 *
 * Returns 0, also for NULL, or:
 *   EDEADLK    the call is in a task of this pool, or in a callback; nothing was done
 *   ECANCELED  the calling task, in STINT_FAIL, is to stop; the pool is being shut down, and is not freed */
STINT_API int stint_pool_destroy(stint_pool *pool);

/* Destroy the pool as stint_pool_destroy does, but wait no longer than timeout_ns nanoseconds. If tasks still run then,
 * the pool is left to them: the last of them frees it as it ends. *left, which may be NULL, becomes the number of
 * workers that still run a task. stint_pool_visit, called before, tells which tasks these are and what defers their
 * interrupts.
 *
 * The futures of the tasks that are left resolve as ever, and callbacks and on_overdue may come until then. A task that
 * never ends keeps its thread, its memory and its locks until the process ends. No other call on the pool may be under
 * way or follow, whether this returns 0 or ETIMEDOUT.
 *
 * Threads: any thread that is not one of the pool's.
 *
 * Returns 0, also for NULL: all workers have ended, and the pool is freed. Otherwise:
 *   ETIMEDOUT  the pool is left to the tasks that run
 *   EDEADLK, ECANCELED  as stint_pool_destroy */
STINT_API int stint_pool_destroy_within(stint_pool *pool, uint64_t timeout_ns, unsigned *left);

/* --- Looking at a pool -------------------------------------------------------------------------------------------- */

/* Tell how many workers the pool has, substitutes not counted.
 *
 * Returns the number; 0 for NULL. */
STINT_API unsigned stint_pool_workers(const stint_pool *pool);

/* Find the pool that runs the calling task, to submit more tasks to it without handing it down. In a callback it is the
 * pool of the thread that resolved the future. The pool lives at least until the task has ended, or the callback has
 * returned.
 *
 * Returns the pool of which the calling thread is a worker or a substitute; NULL: the thread is neither. */
STINT_API stint_pool *stint_pool_current(void);

/* A pool's numbers say what it has done so far, and what it has to do. Each worker counts on cache lines of its own,
 * with plain stores, so counting costs next to nothing, and a reader does not slow the worker down. stint_pool_visit
 * tells what the pool does right now, task by task: for a status page, a debugger's command, or a shutdown that takes
 * too long. */

/* The size of stint_pool_statistics.outcomes: no stint_reason is as large as this. */
#define STINT_REASONS_MAX 32

/* The nanoseconds (100 ms) that a task has to wait before stint_pool_statistics.neglected counts it. */
#define STINT_NEGLECT_NS UINT64_C(100000000)

/* The numbers of a pool. STINT_POOL_STATISTICS_INIT makes the struct before it is read; it can grow (stint.h). */
typedef struct stint_pool_statistics {
    size_t size; /* sizeof(stint_pool_statistics) */

    /* Tasks that have resolved, by their reason (STINT_REASON_NONE: Ok). A task that was cancelled before it started
     * counts when its slot in the queue is given back: for tasks without account and priority, when a worker takes
     * it. */
    uint64_t outcomes[STINT_REASONS_MAX];

    size_t queued;    /* entries of the submission queue and of the workers' deques, those of cancelled tasks too */
    size_t waiting;   /* tasks with an account or a priority, which wait beside the queue */
    size_t held_back; /* of these, tasks whose account had its maximum of running tasks when it was last looked at */

    unsigned running; /* workers in the midst of a task, or of a part of one: a shutdown waits for them */
    unsigned asleep;  /* of these, workers that sleep in a blocking region, a wait or a join */

    /* Whether tasks wait although a worker is free: how many tasks without account had waited for STINT_NEGLECT_NS when
     * they began, while a worker was idle and none had been woken; and the longest such time, in nanoseconds. The time
     * for which a woken worker gets no processor does not count, as that is the load of the machine. */
    uint64_t neglected;
    uint64_t longest_neglect_ns;

    unsigned substitutes;  /* the most substitute workers that there have been at once (stint_pool_options.substitutes),
                            * with the last one if the system let it not begin: an idle one ends after a second, and its
                            * number is used again */
    unsigned substituting; /* of these, those that now stand in for a task that sleeps */
    uint64_t replaced;     /* times that a substitute took the place of a task that fell asleep */
    uint64_t unreplaced;   /* times that its place stayed empty, as no substitute was left or could be started */
} stint_pool_statistics;

#define STINT_POOL_STATISTICS_INIT STINT_SIZED_INIT_(stint_pool_statistics)

/* The numbers of a worker. STINT_WORKER_STATISTICS_INIT makes the struct before it is read; it can grow (stint.h). */
typedef struct stint_worker_statistics {
    size_t size;     /* sizeof(stint_worker_statistics) */
    uint64_t tasks;  /* tasks that the worker has begun */
    uint64_t steals; /* of these, tasks that it took from another worker */
    uint64_t parks;  /* times that it found no task and went to sleep */
    size_t queued;   /* entries of its own deque */
} stint_worker_statistics;

#define STINT_WORKER_STATISTICS_INIT STINT_SIZED_INIT_(stint_worker_statistics)

/* Read the numbers of a pool, or of its worker number index. The substitutes come behind the pool's own workers. Each
 * number is right by itself, at some moment during the call. If a task's function was called, the task is counted in
 * outcomes before its future resolves.
 *
 * Returns 0, or:
 *   EINVAL  an argument is NULL, *statistics has no size, or there is no such worker */
STINT_API int stint_pool_read(const stint_pool *pool, stint_pool_statistics *statistics);
STINT_API int stint_pool_read_worker(const stint_pool *pool, unsigned index, stint_worker_statistics *statistics);

/* The bytes that a library's copy of a task's name has, with the zero at its end. */
#define STINT_NAME_SIZE 64

/* One task of a pool as stint_pool_visit shows it. Later versions may append fields. */
typedef struct stint_task_view {
    const char *name;        /* a copy of the first 63 characters; NULL: the task has no name */
    const char *account;     /* the name of its account; NULL: it has none */
    stint_priority priority; /* its priority */
    bool running;            /* true: its function has begun */
    unsigned worker;         /* running: the number of its worker, as in the thread's name; otherwise 0 */
    uint64_t age_ns;         /* nanoseconds since it was submitted */
    uint64_t run_ns;     /* nanoseconds since its function began; 0: it has not, or another task runs on top of it */
    size_t memory;       /* bytes that it held when it was last measured (like usage.peak); 0 where run_ns is 0 */
    stint_budget limits; /* its limits as they are now (stint_future_set_budget) */
    bool overdue;        /* true: its deadline passed more than stint_pool_options.overdue_ns ago */
    stint_deferral deferral; /* running: what its interrupt had to wait for when it was last tried; NONE: nothing yet */
} stint_task_view;

/* Is shown one task by stint_pool_visit. The view is the function's until it returns.
 *
 * Returns true to go on with the next task, false to end the visit. */
typedef bool stint_visit_fn(const stint_task_view *view, void *arg);

/* Visit the pool's tasks: call visit(view, arg) for each. First come the tasks that run, worker by worker, on each the
 * innermost first. Then come those that wait, in no particular order.
 *
 * The tasks are those of a snapshot that is made before the first call. Each of them was running or waiting at some
 * moment while it was made. A task that is just being moved from one queue to another, or whose submission has not
 * returned, may be left out. While the snapshot is made no task in the process resolves, and no future is freed: some
 * 100 ns for each task of this pool. visit may make any call; the pool goes on meanwhile. An interrupt of the calling
 * task waits until the visit has ended.
 *
 * Returns 0, also when visit has returned false, or:
 *   EINVAL  pool or visit is NULL
 *   ENOMEM  there is no memory for the snapshot, and visit was not called */
STINT_API int stint_pool_visit(stint_pool *pool, stint_visit_fn *visit, void *arg);

/* What on_overdue is told about an overdue task (stint_pool_options.on_overdue). Later versions may append fields. */
struct stint_overdue_report {
    const stint_task_view *task; /* deferral is NONE where no interrupt has been tried: it makes no sample point */
    uint64_t late_ns;            /* nanoseconds since its deadline */
    bool replaced; /* true: a substitute has its worker's place, and the pool is as wide as it should be */
};

/* --- Blocking regions --------------------------------------------------------------------------------------------- */

/* In a blocking region a task says that it is about to sleep, in a system call or on somebody else's lock. A substitute
 * worker takes its place, so that the processors have something to do. The idea is that of Java's ManagedBlocker, and
 * of Go's scheduler, which gives a thread's processor to another thread when it enters a system call. */

/* Begin and end a blocking region, in which the calling task runs nothing that needs a processor. If fewer of the
 * pool's workers are at work than it has, and a substitute is left (stint_pool_options.substitutes), the substitute
 * takes the task's place until the region ends. The price is two uncontended locks, and the first times the start of a
 * thread. A region is worth it where the sleep may last a millisecond or more. Outside of a pool's tasks, such as in
 * stint_run on a thread of the program, both calls do nothing.
 *
 * No task begins while as many threads are at work as the pool has workers. But a task goes on as soon as its region
 * ends, without waiting for a place: until the substitute's present task has ended, both run.
 *
 * A region belongs to the innermost scope of the calling thread. Regions nest, and the outermost pair counts. An end
 * without a begin in the same scope does nothing. A region that is open when its scope ends, also by an interrupt, ends
 * with the scope.
 *
 * A sleeping thread makes no sample points. An interrupt reaches the task during the sleep if the task has a hook
 * (interrupt.h) or is preemptible. stint_blocking_end is a sample point, at which an interrupt that is due is
 * delivered. */
STINT_API void stint_blocking_begin(void);
STINT_API void stint_blocking_end(void);

STINT_END_DECLS

#endif
