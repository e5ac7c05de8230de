/* SPDX-License-Identifier: MIT
 *
 * Making and freeing pools. Any thread; which calls may meet is said in stint/pool.h. */
#include <errno.h>
#include <stint/pool.h>
#include <string.h>

#include "alloc/backend_check.h"
#include "alloc/linkage.h"
#include "alloc/process.h"
#include "deadlock.h"
#include "pool_state.h"
#include "pools.h"
#include "processors.h"
#include "shutdown.h"
#include "start.h"
#include "worker.h"

void sti_pool_free(stint_pool *pool)
{
    struct sti_worker *worker = sti_worker_current(); /* another pool's: its place is given up while others end callbacks */
    sti_deadlock_forget();
    if (worker != NULL)
        sti_spare_fall_asleep(worker, NULL);
    pthread_mutex_destroy(&pool->joining);
    sti_overdue_end(&pool->overdue);
    sti_delays_await(&pool->delays);
    sti_shutdown_end_queued(pool); /* what submitters and delayed tasks left when the pool had closed */
    sti_tenants_end(&pool->tenants);
    sti_monitor_end(&pool->monitor);
    sti_farewell_await_all(pool); /* those that are noted on the way out of the tenants too */
    if (worker != NULL)
        sti_spare_awake(worker, NULL);
    sti_delays_end(&pool->delays);
    sti_farewells_end(&pool->farewells);
    sti_places_end(&pool->places);
    sti_spares_end(&pool->spares);
    sti_queue_end(&pool->queue);
    if (pool->processors.mask != NULL)
        sti_processors_free(&pool->processors);
    sti_process_free(pool->workers);
    sti_process_free(pool);
}

static stint_pool *make_pool(unsigned workers, unsigned spares, size_t queue_capacity, const char *name)
{
    stint_pool *pool = sti_process_aligned(_Alignof(stint_pool), sizeof *pool);
    if (pool == NULL)
        return NULL;
    memset(pool, 0, sizeof *pool);
    pool->workers = sti_process_aligned(_Alignof(struct sti_worker), (workers + spares) * sizeof *pool->workers);
    if (pool->workers == NULL) {
        sti_process_free(pool);
        return NULL;
    }
    if (!sti_queue_init(&pool->queue, queue_capacity)) {
        sti_process_free(pool->workers);
        sti_process_free(pool);
        return NULL;
    }
    if (!sti_tenants_init(&pool->tenants, pool, queue_capacity)) {
        sti_queue_end(&pool->queue);
        sti_process_free(pool->workers);
        sti_process_free(pool);
        return NULL;
    }
    pool->worker_count = workers;
    pool->tally.shared = true;
    sti_places_init(&pool->places);
    sti_monitor_init(&pool->monitor);
    sti_overdue_init(&pool->overdue, &pool->monitor.expired);
    sti_delays_init(&pool->delays);
    sti_farewells_init(&pool->farewells);
    for (unsigned i = 0; i < workers; i++)
        sti_worker_init(&pool->workers[i], pool, i);
    sti_token_init(&pool->stop, NULL);
    strncpy(pool->name, name, sizeof pool->name - 1);
    atomic_init(&pool->alive, workers);
    sti_event_init(&pool->ended);
    pthread_mutex_init(&pool->joining, NULL);
    sti_spares_init(&pool->spares, workers, spares);
    return pool;
}

static unsigned default_workers(void)
{
    unsigned usable = sti_processors_usable("");
    return usable > STI_WORKERS_MAX ? STI_WORKERS_MAX : usable;
}

static unsigned spares_of(const stint_pool_options *options)
{
    if (options->spares == STINT_NO_SPARES)
        return 0;
    return options->spares != 0 ? options->spares : STI_SPARES_DEFAULT;
}

int stint_pool_create(stint_pool **pool, const stint_pool_options *options)
{
    static const stint_pool_options defaults = STINT_POOL_OPTIONS_INIT;
    if (options == NULL)
        options = &defaults;
    if (pool == NULL || options->workers > STI_WORKERS_MAX || options->queue_capacity > STI_QUEUE_CAPACITY_MAX ||
        (options->spares > STI_SPARES_MAX && options->spares != STINT_NO_SPARES) ||
        !sti_link_flags_valid(options->flags))
        return EINVAL;
    if (sti_backend_check() != 0 || !sti_link_allows(options->flags))
        return ENOTSUP;
    stint_pool *created = make_pool(options->workers != 0 ? options->workers : default_workers(), spares_of(options),
                                    options->queue_capacity != 0 ? options->queue_capacity : STI_QUEUE_CAPACITY_DEFAULT,
                                    options->name != NULL ? options->name : "stint");
    if (created == NULL)
        return ENOMEM;
    created->holds_near_limit = options->hold_near_memory_limit;
    created->overdue.after_ns = options->overdue_ns;
    created->overdue.function = options->on_overdue;
    created->overdue.arg = options->overdue_arg;
    created->worker_begins = options->worker_begins;
    created->worker_ends = options->worker_ends;
    created->worker_data = options->worker_data;
    unsigned started = sti_start_workers(created, options->pinned);
    if (started < created->worker_count) {
        sti_shutdown_begin(created, STI_POOL_CANCELLING);
        sti_shutdown_join(created, started);
        sti_pool_free(created);
        return EAGAIN;
    }
    sti_pools_add(created);
    *pool = created;
    return 0;
}

unsigned stint_pool_workers(const stint_pool *pool)
{
    return pool != NULL ? pool->worker_count : 0;
}

int stint_pool_destroy(stint_pool *pool)
{
    if (pool == NULL)
        return 0;
    int error = stint_pool_shutdown(pool, STINT_SHUTDOWN_CANCEL, STINT_FOREVER);
    if (error != 0)
        return error;
    sti_pools_remove(pool);
    sti_pool_free(pool);
    return 0;
}

int stint_pool_destroy_within(stint_pool *pool, uint64_t timeout_ns, unsigned *left)
{
    unsigned running = 0;
    int error = pool != NULL ? stint_pool_shutdown(pool, STINT_SHUTDOWN_CANCEL, timeout_ns) : 0;
    if (error == ETIMEDOUT) {
        sti_pools_remove(pool);
        sti_shutdown_end_queued(pool);
        error = sti_shutdown_abandon(pool, &running) ? ETIMEDOUT : 0;
    } else if (error == 0) {
        error = stint_pool_destroy(pool);
    }
    if (left != NULL)
        *left = running;
    return error;
}
