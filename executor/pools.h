/* SPDX-License-Identifier: MIT
 *
 * The list of the process's pools: for what comes from outside and concerns all of them. That is a slot of an account
 * that is free again, memory that idle workers are to give back, and a fork. The child of a fork has none of its parent's workers, so it has none of its pools
 * either: they are marked, every call on them is refused, and so is waiting for one of their unresolved futures. The
 * generation, which every fork makes another, tells those. Any thread. */
#ifndef STI_EXECUTOR_POOLS_H
#define STI_EXECUTOR_POOLS_H

#include <stdatomic.h>
#include <stint/pool.h>

/* Written in the child of a fork only, by its one thread. */
extern unsigned sti_pools_generation;

void sti_pools_add(stint_pool *pool);
void sti_pools_remove(stint_pool *pool);

/* More tasks of some account may wait than before: give places to those who wait for one, in every pool. */
void sti_pools_fill(void);

#endif
