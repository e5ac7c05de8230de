/* SPDX-License-Identifier: MIT
 *
 * The pool's state, which its submitters and its workers share. */
#ifndef STI_EXECUTOR_POOL_POOL_STATE_H
#define STI_EXECUTOR_POOL_POOL_STATE_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stint/pool.h>

#include "alloc/interrupt/signals.h"
#include "alloc/interrupt/token.h"
#include "executor/queue/delays.h"
#include "executor/queue/fair_queue.h"
#include "executor/queue/queue.h"
#include "executor/queue/queue_slots.h"
#include "executor/worker/event.h"
#include "executor/worker/park.h"
#include "executor/worker/substitute.h"
#include "farewell.h"
#include "monitor.h"
#include "overdue.h"
#include "pool.h"
#include "pools.h"

#define STI_THREAD_NAME_SIZE 16

/* Only ever grows. OPEN accepts tasks; DRAINING and CANCELLING are what stint_pool_shutdown was asked for. */
enum sti_pool_phase {
    STI_POOL_OPEN,
    STI_POOL_DRAINING,
    STI_POOL_CANCELLING,
    STI_POOL_LEFT_BEHIND, /* in the child of a fork: its workers are not here */
};

struct sti_worker;

struct stint_pool {
    atomic_int phase;
    unsigned worker_count;
    struct sti_worker *workers; /* and room for the substitutes: sti_pool_slots */
    bool holds_near_limit;      /* hold_near_memory_limit */
    struct sti_processors processors; /* the workers of a pinned pool have one each; mask NULL: it is not pinned */
    void (*worker_begins)(void *worker_data, unsigned index);
    void (*worker_ends)(void *worker_data, unsigned index);
    void *worker_data;
    stint_token stop;           /* set when cancelling; every running task's scope looks at it */
    char name[STI_THREAD_NAME_SIZE];
    struct sti_child_masks signals; /* of its threads; set before they start */

    struct sti_lot lot;
    _Alignas(64) struct sti_queue queue;
    struct sti_fair_queue fair_queue;
    struct sti_queue_slots queue_slots;
    struct sti_monitor monitor;
    struct sti_overdue overdue;
    struct sti_delays delays;
    struct sti_farewells farewells;
    struct sti_tally tally; /* of tasks that no worker counted; shared */
    stint_pool *next_pool;  /* in the list of all (pools.h) */
    _Alignas(64) struct sti_substitutes substitutes;

    /* The end: each worker counts itself out of alive as the last thing it does; who waits for 0 then joins them all,
     * once. Or nobody waits any more (abandoned, set while alive is not 0): then the last one frees the pool. */
    _Alignas(64) atomic_uint alive;
    atomic_bool abandoned;
    sti_event ended;
    pthread_mutex_t joining;
    bool joined; /* under joining */
};

/* Nobody uses it any more: no worker, and no call. */
void sti_pool_free(stint_pool *pool);

static inline bool sti_pool_is_open(const stint_pool *pool)
{
    return atomic_load_explicit(&pool->phase, memory_order_acquire) == STI_POOL_OPEN;
}

static inline bool sti_pool_is_left_behind(const stint_pool *pool)
{
    return atomic_load_explicit(&pool->phase, memory_order_relaxed) == STI_POOL_LEFT_BEHIND;
}

/* Of a pool that is not open, to who submits. */
static inline int sti_pool_refusal(const stint_pool *pool)
{
    return sti_pool_is_left_behind(pool) ? EOWNERDEAD : ESHUTDOWN;
}

/* How many of the pool's workers are threads, or were: its own, then substitutes. For whoever looks through them all. */
static inline unsigned sti_pool_slots(const stint_pool *pool)
{
    return atomic_load_explicit(&pool->substitutes.slots, memory_order_acquire);
}

#endif
