/* SPDX-License-Identifier: MIT
 *
 * Ending a pool. Any thread, but for what says otherwise. */
#ifndef STI_EXECUTOR_POOL_SHUTDOWN_H
#define STI_EXECUTOR_POOL_SHUTDOWN_H

#include <pthread.h>
#include <stdbool.h>
#include <stint/pool.h>

#include "executor/task/task.h"
#include "pools.h"

/* Only ever grows. OPEN accepts tasks; DRAINING and CANCELLING are what stint_pool_shutdown was asked for. */
enum sti_pool_phase {
    STI_POOL_OPEN,
    STI_POOL_DRAINING,
    STI_POOL_CANCELLING,
};
/* Move the pool to this phase unless it is there or beyond, and wake the workers to see it. */
void sti_shutdown_begin(stint_pool *pool, enum sti_pool_phase phase);

/* End what is queued, unstarted. The pool has closed. */
void sti_shutdown_end_queued(stint_pool *pool);

/* Wait for the ends of so many workers' threads. Once. */
void sti_shutdown_join(stint_pool *pool, unsigned count);

/* A worker's thread has done its last: from now on it must not touch the pool. */
void sti_shutdown_leave(stint_pool *pool);

/* Be counted among the workers, so that the pool stays. False: there is none any more. Then: be counted no more. True:
 * this was the last one, and nobody waits for the pool's end: the caller frees it, or has it freed. Any thread. */
bool sti_shutdown_keep(stint_pool *pool);
bool sti_shutdown_leave_to_free(stint_pool *pool);

/* Of a pool that is cancelled: leave it to the workers that still run, of which *running have a task; the last one
 * frees it. False: there was none left, and the pool is freed. */
bool sti_shutdown_abandon(stint_pool *pool, unsigned *running);

/* --- Farewells: when stint_pool_destroy returns, the callbacks of the pool's tasks have returned. The callbacks of a
 * task that a worker ran have returned before the worker leaves. But a task that is ended unstarted, by
 * stint_future_cancel or at its deadline, is ended by any thread, which may be in its callbacks for long after the
 * task's entry has been dropped. A thread that drops such an entry therefore notes the task, unless its callbacks are
 * over; and stint_pool_destroy waits for those that are noted. Each that is noted has two others looked at, in turn,
 * and taken off if their callbacks are over: so as many are noted as were at once under way, and not as many as there
 * have been. */

struct sti_farewells {
    pthread_mutex_t lock;
    sti_task *first; /* noted, each with a reference */
    sti_task **end;
};

void sti_farewells_init(struct sti_farewells *farewells);
void sti_farewells_end(struct sti_farewells *farewells);

/* Drop the entry of a task that the caller has not claimed, and its reference; count the outcome if it never starts.
 * Any thread, while the pool cannot be freed. */
void sti_farewell_drop(stint_pool *pool, sti_task *task);

/* The caller is about to end a task that it has claimed, without an entry that somebody would drop later. */
void sti_farewell_note(stint_pool *pool, sti_task *task);

/* Wait until the noted tasks have resolved, and all their continuations have been run. Nothing is noted any more. */
void sti_farewell_await_all(stint_pool *pool);

#endif
