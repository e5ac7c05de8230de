/* SPDX-License-Identifier: MIT
 *
 * The pool's state, which its submitters and its workers share; its processors, and the starting of its threads. Any
 * thread. */
#ifndef STI_EXECUTOR_POOL_POOL_STATE_H
#define STI_EXECUTOR_POOL_POOL_STATE_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stint/pool.h>

#include "alloc/interrupt/signals.h"
#include "alloc/interrupt/token.h"
#include "executor/base/event.h"
#include "executor/queue/fair_queue.h"
#include "executor/queue/queue.h"
#include "executor/queue/queue_slots.h"
#include "executor/task/delays.h"
#include "executor/worker/park.h"
#include "executor/worker/substitute.h"
#include "monitor.h"
#include "overdue.h"
#include "pools.h"
#include "shutdown.h"

/* --- The processors that a pool may use: those of the calling thread's affinity mask, as many as the control group's
 * quota pays for. Any thread. */

/* The calling thread's affinity mask. */
struct sti_processors {
    cpu_set_t *mask;
    size_t size;    /* of the mask, in bytes */
    unsigned count; /* of processors in it */
};

/* False: it cannot be read, or there is no memory; then mask is NULL and nothing need be freed. */
bool sti_processors_read(struct sti_processors *processors);
void sti_processors_free(struct sti_processors *processors);

/* Empty the mask but for its i-th processor, counted modulo their number. only has room for the same mask. */
void sti_processors_choose(const struct sti_processors *processors, unsigned i, cpu_set_t *only);

/* How many workers keep busy what the calling thread may use: at least 1. root is "", but for a test. */
unsigned sti_processors_usable(const char *root);

/* --- The pool. --- */

#define STI_THREAD_NAME_SIZE 16

struct sti_worker;

/* For a pool whose workers run its tasks elsewhere: behind a wall (wall/walled.h). */
struct sti_pool_hooks {
    /* For the claimant: as sti_task_run. */
    void (*run)(struct sti_worker *worker, sti_task *task);

    /* The task has resolved, and its continuations have been run; may be called again. Under the task's lock. */
    void (*settle)(sti_task *task);

    /* Called by the worker that has run the task when it has resolved and its waiters have been woken. */
    void (*tidy)(struct sti_worker *worker, sti_task *task);
};

struct stint_pool {
    atomic_int phase;
    unsigned worker_count;
    struct sti_worker *workers;       /* and room for the substitutes: sti_pool_slots */
    struct sti_processors processors; /* the workers of a pinned pool have one each; mask NULL: it is not pinned */
    stint_pool_options options;       /* that it was made with; its name is the next but one */
    stint_token stop;                 /* set when cancelling; every running task's scope looks at it */
    char name[STI_THREAD_NAME_SIZE];
    char label[STI_POOL_LABEL_SIZE]; /* set as it goes on the list */
    struct sti_child_masks signals;  /* of its threads; set before they start */

    struct sti_lot lot;
    _Alignas(64) struct sti_queue queue;
    struct sti_fair_queue fair_queue;
    struct sti_queue_slots queue_slots;
    struct sti_monitor monitor;
    struct sti_delays delays;
    struct sti_farewells farewells;
    sti_counter outcomes[STI_REASONS];  /* of tasks that never began: counted by any thread */
    stint_pool *next_pool;              /* in the list of all (pools.h) */
    const struct sti_pool_hooks *hooks; /* NULL: its workers run tasks as all do */
    _Alignas(64) struct sti_substitutes substitutes;

    /* The end: each worker counts itself out of alive as the last thing it does; a thread that waits for 0 then joins
     * them all, once. Or nobody waits any more (abandoned, set while alive is not 0): then the last one frees the
     * pool. */
    _Alignas(64) atomic_uint alive;
    atomic_bool abandoned;
    sti_event ended;
    pthread_mutex_t joining;
    bool joined; /* under joining */
};

/* As stint_pool_create. */
int sti_pool_create_hooked(const stint_pool_options *options, const struct sti_pool_hooks *hooks, stint_pool **pool);

/* Nobody uses it any more: no worker, and no call. */
void sti_pool_free(stint_pool *pool);

static inline bool sti_pool_is_open(const stint_pool *pool)
{
    return atomic_load_explicit(&pool->phase, memory_order_acquire) == STI_POOL_OPEN;
}

/* How many of the pool's workers are threads, or were: its own, then substitutes. For threads that look through them
 * all. */
static inline unsigned sti_pool_slots(const stint_pool *pool)
{
    return atomic_load_explicit(&pool->substitutes.slots, memory_order_acquire);
}

/* --- Starting a pool's threads. --- */

/* Start all workers, each on one processor if they are to be pinned. Returns how many have been started: fewer than all
 * when the system allows no more threads, or their processors cannot be read. The thread that creates the pool. */
unsigned sti_start_workers(stint_pool *pool, bool pinned);

/* Start one substitute. A substitute may run where the calling thread may; a pinned pool's on any of the processors
 * that its workers have. False: the system allows no more threads. Any thread, in a task too. */
bool sti_start_substitute(struct sti_worker *substitute);

#endif
