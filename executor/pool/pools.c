/* SPDX-License-Identifier: MIT
 *
 * The pools of the process: their list, and the statistics of each; see pools.h. Any thread. */
#include "pools.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stint/pool.h>
#include <string.h>

#include "alloc/meter/account.h"
#include "alloc/platform/clock.h"
#include "alloc/platform/module.h"
#include "alloc/platform/process.h"
#include "alloc/platform/sized.h"
#include "alloc/platform/utf8.h"
#include "executor/base/state.h"
#include "executor/queue/fair_queue.h"
#include "executor/queue/queue_slots.h"
#include "executor/task/continuation.h"
#include "executor/worker/deadlock.h"
#include "executor/worker/park.h"
#include "executor/worker/substitute.h"
#include "executor/worker/worker.h"

/* --- The list of the process's pools. --- */

/* A pool that has no idle worker gets a slot reserved only when it has waited for so long: until a worker comes to it,
 * nobody else has the slot. */
#define LONG_WAIT_NS UINT64_C(100000000)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
stint_pool *sti_pools_all;

/* With the lock. */
static bool is_label_taken(const char *label)
{
    const stint_pool *pool = sti_pools_all;
    while (pool != NULL && strcmp(pool->label, label) != 0)
        pool = pool->next_pool;
    return pool != NULL;
}

static void choose_label(stint_pool *pool, const char *name)
{
    char plain[STI_LABEL_SIZE];
    sti_utf8_copy_clean(plain, sizeof plain, name);
    strcpy(pool->label, plain);
    for (unsigned number = 2; is_label_taken(pool->label); number++)
        snprintf(pool->label, sizeof pool->label, "%s#%u", plain, number);
}

void sti_pools_add(stint_pool *pool, const char *name)
{
    sti_real_mutex_lock(&lock);
    choose_label(pool, name);
    pool->next_pool = sti_pools_all;
    sti_pools_all = pool;
    sti_real_mutex_unlock(&lock);
}

void sti_pools_remove(stint_pool *pool)
{
    sti_real_mutex_lock(&lock);
    stint_pool **link = &sti_pools_all;
    while (*link != pool)
        link = &(*link)->next_pool;
    *link = pool->next_pool;
    sti_real_mutex_unlock(&lock);
}

/* --- Slots of accounts that are free again ------------------------------------------------------------------------ */

/* Of the pools with a task that is held back for the account, the one whose task has waited longest; among those that
 * can use a slot at once, or have waited for long; none all of whose threads sleep. NULL: there is none. */
static stint_pool *pools_choose(const stint_account *account, const stint_pool *own, uint64_t *longest)
{
    stint_pool *chosen = NULL;
    uint64_t now = sti_clock_now();
    for (stint_pool *pool = sti_pools_all; pool != NULL; pool = pool->next_pool) {
        uint64_t since = sti_fair_queue_refused_since(&pool->fair_queue, account);
        if (since == 0 || sti_substitutes_all_sleep(&pool->substitutes) || (chosen != NULL && since >= *longest))
            continue;
        if (pool == own || now - since >= LONG_WAIT_NS || sti_park_is_anybody_idle(pool)) {
            chosen = pool;
            *longest = since;
        }
    }
    return chosen;
}

static void offer_to_all(const stint_account *account)
{
    for (stint_pool *pool = sti_pools_all; pool != NULL; pool = pool->next_pool) {
        if (sti_fair_queue_release(&pool->fair_queue, account))
            sti_park_notify(pool);
    }
}

/* In the pool whose worker gave the slot back, that worker is about to look for a task. In another one it would be too
 * late: so there the slot is taken on the spot. If all its threads have fallen asleep meanwhile, it is for others
 * again. */
void sti_pools_offer_slot(stint_account *account)
{
    const struct sti_worker *worker = sti_worker_current();
    stint_pool *own = worker != NULL ? worker->pool : NULL;
    struct sti_slots tried = { .account = NULL };
    uint64_t longest = 0;
    bool asleep = false;
    sti_real_mutex_lock(&lock);
    stint_pool *pool = pools_choose(account, own, &longest);
    if (pool == NULL) {
        offer_to_all(account);
    } else if (pool == own ? sti_fair_queue_release(&pool->fair_queue, account)
                           : sti_fair_queue_grant(&pool->fair_queue, account, &tried)) {
        sti_park_notify(pool);
        asleep = sti_substitutes_all_sleep(&pool->substitutes);
        if (asleep)
            sti_queue_slots_keep(&pool->queue_slots, 1);
    }
    sti_real_mutex_unlock(&lock);
    if (asleep) {
        sti_fair_queue_pass_on(&pool->fair_queue);
        sti_queue_slots_keep(&pool->queue_slots, -1);
    }
    if (tried.account != NULL)
        sti_account_notify(tried.account, tried.end);
    stint_account_release(tried.account);
}

/* A delayed task may end in this (delays.h). What follows it has to wait until the list is free. */
void sti_pools_fill(void)
{
    bool follows = sti_continuation_is_running();
    if (!follows)
        sti_continuation_begin_callback();
    sti_real_mutex_lock(&lock);
    for (stint_pool *pool = sti_pools_all; pool != NULL; pool = pool->next_pool) {
        if (sti_queue_slots_are_wanted(&pool->queue_slots))
            sti_queue_slots_fill_capped(pool);
    }
    sti_real_mutex_unlock(&lock);
    if (!follows)
        sti_continuation_end_callback();
}

/* Where another holds the list, it may be this very thread, in whose midst somebody allocated too much. */
void sti_pools_wake_idle(void)
{
    if (sti_real_mutex_trylock(&lock) != 0)
        return;
    for (stint_pool *pool = sti_pools_all; pool != NULL; pool = pool->next_pool) {
        for (unsigned i = 0; i < sti_pool_slots(pool); i++)
            sti_idle_ask(&pool->workers[i]);
    }
    sti_real_mutex_unlock(&lock);
}

/* --- Reading what pools and workers have counted. Any thread; nothing is locked. --- */

static void add_outcomes(stint_pool_statistics *statistics, const sti_counter *outcomes)
{
    for (size_t i = 0; i < STINT_REASONS_MAX; i++)
        statistics->outcomes[i] += sti_counter_read(&outcomes[i]);
}

int stint_pool_read(const stint_pool *pool, stint_pool_statistics *statistics)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (pool == NULL || statistics == NULL)
        return EINVAL;
    stint_pool_statistics now = {
        .size = sizeof now,
        .queued = sti_queue_length(&pool->queue),
        .waiting = atomic_load_explicit(&pool->fair_queue.waiting, memory_order_relaxed),
        .held_back = atomic_load_explicit(&pool->fair_queue.held, memory_order_relaxed),
        .asleep = atomic_load_explicit(&pool->substitutes.asleep, memory_order_relaxed),
        .substitutes = sti_pool_slots(pool) - pool->worker_count,
        .substituting = atomic_load_explicit(&pool->substitutes.substituting, memory_order_relaxed),
        .replaced = atomic_load_explicit(&pool->substitutes.replaced, memory_order_relaxed),
        .unreplaced = atomic_load_explicit(&pool->substitutes.unreplaced, memory_order_relaxed),
    };
    add_outcomes(&now, pool->outcomes);
    unsigned slots = sti_pool_slots(pool);
    for (unsigned i = 0; i < slots; i++) {
        add_outcomes(&now, pool->workers[i].tally.outcomes);
        now.neglected += atomic_load_explicit(&pool->workers[i].neglected, memory_order_relaxed);
        uint64_t neglect = atomic_load_explicit(&pool->workers[i].longest_neglect, memory_order_relaxed);
        if (neglect > now.longest_neglect_ns)
            now.longest_neglect_ns = neglect;
        now.running += sti_worker_frame(&pool->workers[i]) != NULL;
        now.queued += sti_deque_length(&pool->workers[i].deque);
    }
    return sti_sized_out(statistics, STI_SIZED_UP_TO(stint_pool_statistics, unreplaced), &now, sizeof now);
}

int stint_pool_read_worker(const stint_pool *pool, unsigned index, stint_worker_statistics *statistics)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (pool == NULL || statistics == NULL || index >= sti_pool_slots(pool))
        return EINVAL;
    const struct sti_worker *worker = &pool->workers[index];
    const stint_worker_statistics now = {
        .size = sizeof now,
        .tasks = atomic_load_explicit(&worker->tasks, memory_order_relaxed),
        .steals = atomic_load_explicit(&worker->steals, memory_order_relaxed),
        .parks = atomic_load_explicit(&worker->parks, memory_order_relaxed),
        .queued = sti_deque_length(&worker->deque),
    };
    return sti_sized_out(statistics, STI_SIZED_UP_TO(stint_worker_statistics, queued), &now, sizeof now);
}

/* --- All numbers of all pools. ------------------------------------------------------------------------------------ */

static void take_numbers(const stint_pool *pool, struct sti_pool_numbers *numbers)
{
    *numbers = (struct sti_pool_numbers){ .workers = pool->worker_count, .statistics = STINT_POOL_STATISTICS_INIT };
    stint_pool_read(pool, &numbers->statistics);
    numbers->waiting = numbers->statistics.queued + numbers->statistics.waiting;
    strcpy(numbers->label, pool->label);
    unsigned slots = sti_pool_slots(pool);
    for (unsigned i = 0; i < slots; i++) {
        const struct sti_worker *worker = &pool->workers[i];
        sti_tally_add_to(&numbers->sum, &worker->tally);
        numbers->started += sti_counter_read(&worker->tasks);
        numbers->steals += sti_counter_read(&worker->steals);
        numbers->forks += sti_counter_read(&worker->forks);
        numbers->parks += sti_counter_read(&worker->parks);
    }
    for (size_t i = 0; i < STI_REASONS; i++)
        numbers->sum.outcomes[i] += sti_counter_read(&pool->outcomes[i]);
}

/* Take the numbers of at most so many pools; returns how many pools there are. */
static size_t pools_take_numbers(struct sti_pool_numbers *numbers, size_t room)
{
    size_t count = 0;
    sti_real_mutex_lock(&lock);
    for (const stint_pool *pool = sti_pools_all; pool != NULL; pool = pool->next_pool, count++) {
        if (count < room)
            take_numbers(pool, &numbers[count]);
    }
    sti_real_mutex_unlock(&lock);
    return count;
}

bool sti_pools_take_numbers(struct sti_pool_numbers **numbers, size_t *count)
{
    size_t room;
    *numbers = NULL;
    *count = pools_take_numbers(NULL, 0);
    do {
        room = *count;
        sti_process_free(*numbers);
        *numbers = room != 0 ? sti_process_calloc(room, sizeof **numbers) : NULL;
        if (room != 0 && *numbers == NULL)
            return false;
        *count = pools_take_numbers(*numbers, room);
    } while (*count > room);
    return true;
}
