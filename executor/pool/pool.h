/* SPDX-License-Identifier: MIT
 *
 * Making a pool: its processors, and the starting of its threads. Any thread. */
#ifndef STI_EXECUTOR_POOL_POOL_H
#define STI_EXECUTOR_POOL_POOL_H

#include <sched.h>
#include <stdbool.h>
#include <stint/pool.h>

#include "executor/base/state.h"

/* --- The processors that a pool may use: those of the calling thread's affinity mask, as many as the control group's
 * quota pays for. Any thread. */

/* False: it cannot be read, or there is no memory; then mask is NULL and nothing need be freed. */
bool sti_processors_read(struct sti_processors *processors);
void sti_processors_free(struct sti_processors *processors);

/* Empty the mask but for its i-th processor, counted modulo their number. only has room for the same mask. */
void sti_processors_choose(const struct sti_processors *processors, unsigned i, cpu_set_t *only);

/* How many workers keep busy what the calling thread may use: at least 1. root is "", but for a test. */
unsigned sti_processors_usable(const char *root);

/* --- The pool. --- */

/* As stint_pool_create. */
int sti_pool_create_hooked(const stint_pool_options *options, const struct sti_pool_hooks *hooks, stint_pool **pool);

/* Nobody uses it any more: no worker, and no call. */
void sti_pool_free(stint_pool *pool);

/* --- Starting a pool's threads. --- */

/* Start all workers, each on one processor if they are to be pinned. Returns how many have been started: fewer than all
 * when the system allows no more threads, or their processors cannot be read. The thread that creates the pool. */
unsigned sti_start_workers(stint_pool *pool, bool pinned);

/* Start one substitute. It may run where the calling thread may, that of a pinned pool on any of the processors that
 * its workers have. False: the system allows no more threads. Any thread, in a task too. */
bool sti_start_substitute(struct sti_worker *substitute);

#endif
