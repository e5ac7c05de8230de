/* SPDX-License-Identifier: MIT
 *
 * Reading what pools and workers have counted. Any thread; nothing is locked. */
#include <errno.h>
#include <stint/statistics.h>

#include "pool_state.h"
#include "worker.h"

static void add_tally(stint_pool_statistics *statistics, const struct sti_tally *tally)
{
    for (size_t i = 0; i < STINT_REASONS_MOST; i++)
        statistics->outcomes[i] += atomic_load_explicit(&tally->outcomes[i], memory_order_relaxed);
}

int stint_pool_read(const stint_pool *pool, stint_pool_statistics *statistics)
{
    if (pool == NULL || statistics == NULL)
        return EINVAL;
    if (sti_pool_is_left_behind(pool))
        return EOWNERDEAD;
    *statistics = (stint_pool_statistics){
        .queued = sti_queue_length(&pool->queue),
        .waiting = atomic_load_explicit(&pool->tenants.waiting, memory_order_relaxed),
        .held_back = atomic_load_explicit(&pool->tenants.held, memory_order_relaxed),
        .asleep = atomic_load_explicit(&pool->spares.asleep, memory_order_relaxed),
        .spares = sti_pool_slots(pool) - pool->worker_count,
        .standing_in = atomic_load_explicit(&pool->spares.standing_in, memory_order_relaxed),
        .replaced = atomic_load_explicit(&pool->spares.replaced, memory_order_relaxed),
        .unreplaced = atomic_load_explicit(&pool->spares.unreplaced, memory_order_relaxed),
    };
    add_tally(statistics, &pool->tally);
    unsigned slots = sti_pool_slots(pool);
    for (unsigned i = 0; i < slots; i++) {
        add_tally(statistics, &pool->workers[i].tally);
        statistics->neglected += atomic_load_explicit(&pool->workers[i].neglected, memory_order_relaxed);
        uint64_t neglect = atomic_load_explicit(&pool->workers[i].longest_neglect, memory_order_relaxed);
        if (neglect > statistics->longest_neglect_ns)
            statistics->longest_neglect_ns = neglect;
        statistics->running += sti_worker_frame(&pool->workers[i]) != NULL;
        statistics->queued += sti_deque_length(&pool->workers[i].deque);
    }
    return 0;
}

int stint_pool_read_worker(const stint_pool *pool, unsigned index, stint_worker_statistics *statistics)
{
    if (pool == NULL || statistics == NULL || index >= sti_pool_slots(pool))
        return EINVAL;
    if (sti_pool_is_left_behind(pool))
        return EOWNERDEAD;
    const struct sti_worker *worker = &pool->workers[index];
    *statistics = (stint_worker_statistics){
        .tasks = atomic_load_explicit(&worker->tasks, memory_order_relaxed),
        .steals = atomic_load_explicit(&worker->steals, memory_order_relaxed),
        .parks = atomic_load_explicit(&worker->parks, memory_order_relaxed),
        .queued = sti_deque_length(&worker->deque),
    };
    return 0;
}
