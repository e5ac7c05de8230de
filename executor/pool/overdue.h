/* SPDX-License-Identifier: MIT
 *
 * Tasks as seen from another thread: those that are overdue, visits to all, and how long one waits beside an idle
 * worker. */
#ifndef STI_EXECUTOR_POOL_OVERDUE_H
#define STI_EXECUTOR_POOL_OVERDUE_H

#include <ck_pr.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stint/visit.h>

#include "alloc/interrupt/watch.h"
#include "executor/task/task.h"
#include "timers.h"

/* --- Overdue tasks: those that still run when their deadline has passed for longer than the pool's overdue_ns. Nothing
 * ends them, so at least the pool goes on: a substitute takes the worker's place (substitute.h), and the application is
 * told.
 *
 *   worker   before the task begins: its entry's timer in; after it has ended: out, and its place back if it was
 *            replaced
 *   watch    what has expired goes on the list of those that are due; for each of these: asks the thread for its
 *            callstack (alloc/interrupt/signals.h), has it replaced, and hands a report to the pool's thread
 *            (monitor.h)
 *   that     waits a moment for the answer, calls the application
 *
 * An entry lies on its worker's stack, and is in the wheel or on the list only under the lock: so the worker's second
 * step ends everybody's use of it. Pools without overdue_ns pay for a look at it. */

struct sti_expired;
struct sti_worker;

struct sti_overdue_entry {
    struct sti_timer timer; /* first, so that a timer is its entry */
    struct sti_worker *worker;
    sti_task *task;
    uint64_t started;
    uint64_t deadline;
    bool given_up; /* its worker's place */
    bool replaced; /* and somebody has it */
    struct sti_overdue_entry *next_due;
};

struct sti_overdue {
    uint64_t after_ns; /* 0: nobody looks; this and the next two are set as the pool is made */
    stint_overdue_fn *function;
    void *arg;
    struct sti_expired *reports;
    struct sti_watch watch;
    atomic_bool watched;
    pthread_mutex_t lock; /* for the rest */
    struct sti_timers timers;
    struct sti_overdue_entry *due;
};

void sti_overdue_init(struct sti_overdue *overdue, struct sti_expired *reports);
void sti_overdue_end(struct sti_overdue *overdue);

/* When a task has to end that has started then (0: it has not); UINT64_MAX: never. */
uint64_t sti_overdue_deadline(const sti_task *task, uint64_t started);

/* Around a task, by its worker's thread. */
void sti_overdue_begin_task(struct sti_overdue *overdue, struct sti_overdue_entry *entry, struct sti_worker *worker,
                            sti_task *task);
void sti_overdue_end_task(struct sti_overdue *overdue, struct sti_overdue_entry *entry);

/* --- Visiting: another thread looks at tasks that it has no reference to, in queues and on workers. Those who end and
 * free tasks pay one load each for that.
 *
 *   visitor   visits = 1 (an exchange); a barrier; looks at queues, deques, running ...; visits = 0, wakes
 *   the one who takes a task out     an entry of a queue, or the task that a worker runs, is not to be seen any more;
 *                                    a barrier; reads visits; while it is 1, waits; resolves or frees the task
 *
 * Both write, pass a barrier and read: so either the visitor does not see the task any more, or who took it out sees
 * the visitor. A task that the visitor has seen and that had not resolved then does not resolve until it is done, so
 * its options, its name and its account are there; one that has is not freed. The barrier is that of the claim of a
 * queue's entry, which is tried in any case, and the exchange with which a worker leaves a task. A worker's frames lie
 * on its stack: a thread that leaves one, a stolen subtask's too, waits in the same way before it is gone.
 *
 * One visitor at a time. It calls nobody and waits for nobody but a lock of the pool's under which nothing resolves. */

extern atomic_uint sti_visits __attribute__((visibility("hidden")));

void sti_visit_await(void);

/* Before a task resolves or is freed, by the thread that has taken it out. */
static inline void sti_visit_let_pass(void)
{
    ck_pr_fence_atomic_load();
    /* acquire: what the last visitor read it has read. */
    if (__builtin_expect(atomic_load_explicit(&sti_visits, memory_order_acquire) != 0, 0))
        sti_visit_await();
}

/* --- Neglect: a task that waits while a worker is idle. The pool promises that there is none, beyond the time that it
 * takes to be woken; this measures it, so that it can be tested and watched. */

/* The worker has run the task, which had waited for long: look whether some worker, this one too, had nothing to do
 * meanwhile. By its own thread. */
void sti_neglect_note(struct sti_worker *worker, const sti_task *task);

#endif
