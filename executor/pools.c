/* SPDX-License-Identifier: MIT
 *
 * The list of the process's pools; see pools.h. */
#include "pools.h"

#include <pthread.h>
#include <stddef.h>

#include "alloc/account.h"
#include "alloc/give_back.h"
#include "alloc/plain_lock.h"
#include "idle.h"
#include "park.h"
#include "pool_state.h"
#include "worker.h"

unsigned sti_pools_generation;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static stint_pool *pools;

void sti_pools_add(stint_pool *pool)
{
    sti_plain_mutex_lock(&lock);
    pool->next_pool = pools;
    pools = pool;
    sti_plain_mutex_unlock(&lock);
}

void sti_pools_remove(stint_pool *pool)
{
    sti_plain_mutex_lock(&lock);
    stint_pool **link = &pools;
    while (*link != pool)
        link = &(*link)->next_pool;
    *link = pool->next_pool;
    sti_plain_mutex_unlock(&lock);
}

static void on_free_slot(stint_account *account)
{
    sti_plain_mutex_lock(&lock);
    for (stint_pool *pool = pools; pool != NULL; pool = pool->next_pool) {
        if (sti_tenants_release(&pool->tenants, account))
            sti_park_notify(pool);
    }
    sti_plain_mutex_unlock(&lock);
}

/* Where another holds the list, it may be this very thread, in whose midst somebody allocated too much. */
static void wake_idle(uint32_t round)
{
    if (sti_plain_mutex_trylock(&lock) != 0)
        return;
    for (stint_pool *pool = pools; pool != NULL; pool = pool->next_pool) {
        for (unsigned i = 0; i < sti_pool_slots(pool); i++)
            sti_idle_ask(&pool->workers[i], round);
    }
    sti_plain_mutex_unlock(&lock);
}

static void before_fork(void)
{
    sti_plain_mutex_lock(&lock);
}

static void after_fork_in_parent(void)
{
    sti_plain_mutex_unlock(&lock);
}

static void after_fork_in_child(void)
{
    for (stint_pool *pool = pools; pool != NULL; pool = pool->next_pool)
        atomic_store_explicit(&pool->phase, STI_POOL_LEFT_BEHIND, memory_order_relaxed);
    pools = NULL;
    sti_pools_generation++;
    sti_worker_leave_behind();
    sti_plain_mutex_unlock(&lock);
}

__attribute__((constructor)) static void prepare(void)
{
    sti_account_listen(on_free_slot);
    sti_give_back_listen(wake_idle);
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}
