/* SPDX-License-Identifier: MIT
 *
 * Delays: tasks that have been submitted and do not wait where workers look yet, since they wait for something else:
 * for a time (series.c), for a future (serial.c), for their turn in a serial queue (serial.c).
 *
 *                  start                put
 *   NEW ---> DELAYED ---> NEW ---> DUE <----> NEW ---> QUEUED, as every other task
 *               |                   |
 *               +-------------------+---> ENDING, by stint_future_cancel or a shutdown: it resolves, and never starts
 *
 *   start, end, put    a compare-and-swap of DELAYED or DUE each, so one thread wins. Acquire; the task became either
 *                      with a release. DUE: it stands in a queue for a slot (queue_slots.h), before callers of
 *                      stint_submit or stint_submit_wait.
 *
 * From DELAYED on the task is on the pool's list, under the lock, until it waits where others do, or is about to
 * resolve: taking it off that list is the last thing that is done with the pool. A pool that closes ends all that are
 * on it, and is not freed before the list is empty.
 *
 * References: what keeps the task until it is put is its queue entry's reference; what it waits for may have one more.
 *
 * Any thread. */
#ifndef STI_EXECUTOR_TASK_DELAYS_H
#define STI_EXECUTOR_TASK_DELAYS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stint/pool.h>

#include "executor/base/state.h"

struct sti_delayed {
    sti_task task; /* first: the future */
    stint_pool *home;
    /* The task has been claimed to be ended: it does not wait for anything any more. May be NULL. */
    void (*forget)(struct sti_delayed *delayed);
    /* The task that has to end before this one is started, retained; NULL: there is none, or this one has been started.
     * Any thread that keeps the task, in any state. May be NULL. */
    sti_task *(*awaited)(struct sti_delayed *delayed);
    struct sti_delayed *next; /* this and the next one: on the list */
    struct sti_delayed **link;
    struct sti_delayed *next_claimed; /* by a pool that closes */
    struct sti_slot_waiter waiter;
    uint64_t start_ns; /* its time, by sti_clock_now; 0: it waits for something else */
};

void sti_delays_init(struct sti_delays *delays);

/* Nothing may be delayed any more: end all that is. */
void sti_delays_close(stint_pool *pool);

/* Wait until nothing of the pool is delayed. The pool has closed. */
void sti_delays_await(struct sti_delays *delays);

/* A task with both its references, in a block of so many bytes, which is zero behind the task. 0; EINVAL; ENOTSUP;
 * ESHUTDOWN; ENOMEM. */
int sti_delayed_create(stint_pool *pool, size_t size, stint_fn *fn, void *arg, const stint_options *options,
                       struct sti_delayed **delayed);

/* The task is delayed from now on; if it has a time, until then. 0; ESHUTDOWN: the pool has closed, and the task is
 * gone. */
int sti_delayed_begin(struct sti_delayed *delayed);

/* The task's turn, time or future has come. Does nothing if another thread has ended the task, or started it. */
void sti_delayed_start(struct sti_delayed *delayed);

/* The same in two steps, for a caller that starts several at once. The first step returns false if another thread has
 * ended the task, or started it. */
bool sti_delayed_claim(sti_task *task);
void sti_delayed_start_claimed(sti_task *task);

/* End it unstarted. False: it is not delayed any more. The caller has a reference. */
bool sti_delayed_end(sti_task *task, stint_reason reason);

/* Of a task that is or was delayed: what it waits for, retained, or NULL. */
static inline sti_task *sti_delayed_awaited(sti_task *task)
{
    struct sti_delayed *delayed = (struct sti_delayed *)task;
    return delayed->awaited != NULL ? delayed->awaited(delayed) : NULL;
}

static inline bool sti_delayed_is_for_a_time(sti_task *task)
{
    return sti_task_is_delayed(task) && ((const struct sti_delayed *)task)->start_ns != 0;
}

#endif
