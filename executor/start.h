/* SPDX-License-Identifier: MIT
 *
 * Starting a pool's threads. The thread that creates the pool. */
#ifndef STI_EXECUTOR_START_H
#define STI_EXECUTOR_START_H

#include <stdbool.h>
#include <stint/pool.h>

/* Start all workers, each on one processor if they are to be pinned. Returns how many have been started: fewer than all
 * when the system allows no more threads, or their processors cannot be read. */
unsigned sti_start_workers(stint_pool *pool, bool pinned);

#endif
