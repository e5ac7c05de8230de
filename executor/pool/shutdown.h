/* SPDX-License-Identifier: MIT
 *
 * Ending a pool. Any thread, but for what says otherwise. */
#ifndef STI_EXECUTOR_POOL_SHUTDOWN_H
#define STI_EXECUTOR_POOL_SHUTDOWN_H

#include <pthread.h>
#include <stdbool.h>
#include <stint/pool.h>

#include "executor/base/state.h"

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

#endif
