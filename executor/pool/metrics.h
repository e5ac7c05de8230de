/* SPDX-License-Identifier: MIT
 *
 * The numbers of a pool, copied for stint_metrics_write. Any thread. */
#ifndef STI_EXECUTOR_POOL_METRICS_H
#define STI_EXECUTOR_POOL_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/base/tally.h"
#include "pools.h"

/* What has no comment is what stint/statistics.h calls so. */
struct sti_pool_numbers {
    char label[STI_POOL_LABEL_SIZE];
    uint64_t workers;
    uint64_t started; /* tasks, by workers; and the next three likewise */
    uint64_t steals;
    uint64_t forks;
    uint64_t parks;
    uint64_t waiting; /* in all queues */
    uint64_t held_back;
    uint64_t running;
    uint64_t asleep;
    uint64_t neglected;
    uint64_t longest_neglect_ns;
    uint64_t substitutes;
    uint64_t substituting;
    uint64_t replaced;
    uint64_t unreplaced;
    struct sti_tally_sum sum;
};

/* Of all pools; to be freed by sti_process_free, NULL where there is none. False: no memory. */
bool sti_pools_take_numbers(struct sti_pool_numbers **numbers, size_t *count);

#endif
