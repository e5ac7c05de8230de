/* SPDX-License-Identifier: MIT
 *
 * Delays: tasks that have been submitted and do not wait where workers look yet, since they wait for something else:
 * for a time (series.c, series.c), for a future (serial.c), for their turn in a serial queue (serial.c).
 *
 *                  start                take      sti_admission_put
 *   NEW ---> DELAYED ---> NEW ---> DUE <----> NEW ---> QUEUED, as every other task
 *               |                   |
 *               +-------------------+---> ENDING, by stint_future_cancel or a shutdown: it resolves, and never starts
 *
 *   start, end, take   a compare-and-swap of DELAYED or DUE each, so one thread wins. Acquire; the task became either
 *                      with a release. DUE: it stands in line for a slot; the thread that takes it out tries to put it,
 *                      and may have to stand it in line again.
 *
 * From DELAYED on the task is on the pool's list, under the lock, until it waits where others do, or is about to
 * resolve: taking it off that list is the last thing that is done with the pool. A pool that closes ends all that are
 * on it, and is not freed before the list is empty.
 *
 * A task whose time has come finds a slot, or stands in a line of its own for the next one, before those who call
 * stint_submit or stint_submit_wait. Whoever makes a slot fills it from there (queue_slots.h), since the line counts as
 * submitters who wait. So such a task starts once as many tasks have been taken out as stand before it.
 *
 * References: what keeps the task until it is put is its queue entry's reference; what it waits for may have one more.
 *
 * Any thread. */
#ifndef STI_EXECUTOR_TASK_DELAYS_H
#define STI_EXECUTOR_TASK_DELAYS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stint/pool.h>

#include "alloc/interrupt/watch.h"
#include "continuation.h"
#include "executor/pool/monitor.h"
#include "task.h"

struct sti_delayed {
    sti_task task; /* first: the future */
    stint_pool *home;
    /* It has been claimed to be ended: it does not wait for anything any more. May be NULL. */
    void (*forget)(struct sti_delayed *delayed);
    /* What has to end before it is started, retained; NULL: nothing, or it has been. Any thread that keeps the task,
     * whatever has become of it. May be NULL. */
    sti_task *(*awaited)(struct sti_delayed *delayed);
    struct sti_delayed *next; /* this and the next two: on the list */
    struct sti_delayed **link;
    struct sti_delayed *next_due;  /* in line for a slot, or claimed by a thread that has several */
    struct sti_delayed **link_due; /* NULL: it is not in line */
    struct sti_timer alarm;        /* for its time */
    uint64_t start_ns;             /* its time, by sti_clock_now; 0: it waits for something else */
};

/* Those in line for a slot: plain tasks; the others; and of these such as stand aside, as their accounts had their
 * maximum of waiting tasks when they were asked. */
enum { STI_DUE_PLAIN, STI_DUE_OTHERS, STI_DUE_CAPPED, STI_DUE_LINES };

struct sti_due_line {
    struct sti_delayed *first;
    struct sti_delayed **end;
};

struct sti_delays {
    struct sti_watch watch;
    atomic_bool watched;
    pthread_mutex_t filling; /* held by the thread that puts those in line; taken before the next one */
    pthread_mutex_t lock;    /* for the rest */
    bool closed;
    size_t starting; /* threads that start a task, and may be filling after it has left the list */
    struct sti_delayed *all;
    struct sti_due_line lines[STI_DUE_LINES];
    struct sti_timers timers;
};

void sti_delays_init(struct sti_delays *delays);

/* Nothing may be delayed any more: end all that is. */
void sti_delays_close(stint_pool *pool);

/* Wait until nothing of the pool is delayed, nor being started. It has closed. */
void sti_delays_await(struct sti_delays *delays);

/* Nobody fills slots any more. */
void sti_delays_end(struct sti_delays *delays);

/* Under the lock of the pool's substitutes or with nothing held: whether it is in line for a slot. */
static inline bool sti_task_is_due(sti_task *task)
{
    return atomic_load_explicit(&task->state, memory_order_relaxed) == STI_TASK_DUE;
}

/* Put those in line where they are to wait, as long as there are slots. */
void sti_delays_fill(stint_pool *pool);

/* The same when some account may have more tasks waiting than before. */
void sti_delays_fill_capped(stint_pool *pool);

/* A task with both its references, in a block of so many bytes, which is zero behind the task. 0; EINVAL; ENOTSUP;
 * ESHUTDOWN; ENOMEM. */
int sti_delayed_create(stint_pool *pool, size_t size, stint_fn *fn, void *arg, const stint_options *options,
                       struct sti_delayed **delayed);

/* It is delayed from now on; if it has a time, until then. 0; ESHUTDOWN: the pool has closed, and the task is gone. */
int sti_delayed_begin(struct sti_delayed *delayed);

/* What it waited for has come. Nothing if somebody has ended it, or started it. */
void sti_delayed_start(struct sti_delayed *delayed);

/* End it unstarted. False: it is not delayed any more. The caller has a reference. */
bool sti_delayed_end(sti_task *task, stint_reason reason);

/* Of a task that is or was delayed: what it waits for, retained, or NULL. */
static inline sti_task *sti_delayed_awaited(sti_task *task)
{
    struct sti_delayed *delayed = (struct sti_delayed *)task;
    return delayed->awaited != NULL ? delayed->awaited(delayed) : NULL;
}

static inline bool sti_task_is_delayed(sti_task *task)
{
    return atomic_load_explicit(&task->state, memory_order_relaxed) == STI_TASK_DELAYED;
}

static inline bool sti_delayed_is_for_a_time(sti_task *task)
{
    return sti_task_is_delayed(task) && ((const struct sti_delayed *)task)->start_ns != 0;
}

#endif
