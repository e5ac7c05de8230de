/* SPDX-License-Identifier: MIT
 *
 * The pools of the process, and the numbers that each counts. Any thread. */
#ifndef STI_EXECUTOR_POOL_POOLS_H
#define STI_EXECUTOR_POOL_POOLS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stint/pool.h>

#include "alloc/platform/tally.h"
#include "executor/base/state.h"

/* --- The list of the process's pools: for what comes from outside and concerns all of them. Two things do: a free slot
 * of an account, and memory that idle workers are to give back. Any thread. */

/* The first on the list; under its lock, and for debuggers. */
extern stint_pool *sti_pools_all __attribute__((visibility("hidden")));

void sti_pools_add(stint_pool *pool, const char *name);
void sti_pools_remove(stint_pool *pool);

/* More tasks of some account may wait than before: give slots to the submitters that wait for one, in every pool. */
void sti_pools_fill(void);

_Static_assert(STI_REASONS == STINT_REASONS_MAX, "a counter for each reason");

/* --- The numbers of a pool, copied for stint_metrics_write. Any thread. --- */

struct sti_pool_numbers {
    char label[STI_POOL_LABEL_SIZE];
    uint64_t workers;
    uint64_t started; /* tasks, by workers; and the next three likewise */
    uint64_t steals;
    uint64_t forks;
    uint64_t parks;
    uint64_t waiting; /* in all queues */
    stint_pool_statistics statistics;
    struct sti_tally sum;
};

/* Take the numbers of all pools; the caller frees them by sti_process_free. NULL where there is no pool. False: no
 * memory. */
bool sti_pools_take_numbers(struct sti_pool_numbers **numbers, size_t *count);

/* Hooks of the lower layer (hooks.h): an account has a free slot; and have idle threads give back. Any thread. */
void sti_pools_offer_slot(stint_account *account);
void sti_pools_wake_idle(void);

#endif
