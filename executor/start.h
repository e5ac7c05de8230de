/* SPDX-License-Identifier: MIT
 *
 * Starting a pool's threads. */
#ifndef STI_EXECUTOR_START_H
#define STI_EXECUTOR_START_H

#include <stdbool.h>
#include <stint/pool.h>

struct sti_worker;

/* Start all workers, each on one processor if they are to be pinned. Returns how many have been started: fewer than all
 * when the system allows no more threads, or their processors cannot be read. The thread that creates the pool. */
unsigned sti_start_workers(stint_pool *pool, bool pinned);

/* Start one spare. It may run where the calling thread may, that of a pinned pool on any of the processors that its
 * workers have. False: the system allows no more threads. Any thread, in a task too. */
bool sti_start_spare(struct sti_worker *spare);

#endif
