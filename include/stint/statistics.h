/* SPDX-License-Identifier: MIT
 *
 * What a pool has done so far, and what it has to do. Each worker counts on cache lines of its own, with plain stores,
 * so that counting costs it next to nothing, and a reader does not slow it down. */
#ifndef STINT_STATISTICS_H
#define STINT_STATISTICS_H

#include <stint/pool.h>

STINT_BEGIN_DECLS

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
 * right by itself, at some moment during the call. A task that started is counted before its future is ready.
 *
 * 0; EINVAL: an argument is NULL, *statistics has no size, or there is no such worker. Any thread. */
STINT_API int stint_pool_read(const stint_pool *pool, stint_pool_statistics *statistics);
STINT_API int stint_pool_read_worker(const stint_pool *pool, unsigned index, stint_worker_statistics *statistics);

STINT_END_DECLS

#endif
