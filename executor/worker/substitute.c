/* SPDX-License-Identifier: MIT
 *
 * Threads of workers: what each has, substitutes, and the sleep of one that has nothing to do; see substitute.h. */
#include "substitute.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "alloc/interrupt/hook.h"
#include "alloc/interrupt/stack.h"
#include "alloc/meter/global.h"
#include "alloc/platform/clock.h"
#include "alloc/platform/module.h"
#include "alloc/scope/subtask.h"
#include "deadlock.h"
#include "executor/base/hooks.h"
#include "executor/base/state.h"
#include "executor/queue/fair_queue.h"
#include "park.h"

/* --- Which threads hold a place, and which stand in for others. --- */

#define SPARE_NS UINT64_C(1000000000) /* a substitute that has stood aside for so long ends */

void sti_substitutes_init(struct sti_substitutes *substitutes, unsigned workers, unsigned max)
{
    pthread_mutex_init(&substitutes->lock, NULL);
    substitutes->max = max;
    atomic_init(&substitutes->slots, workers);
    atomic_init(&substitutes->active, workers);
}

void sti_substitutes_end(struct sti_substitutes *substitutes)
{
    pthread_mutex_destroy(&substitutes->lock);
}

/* --- Under the lock ----------------------------------------------------------------------------------------------- */

static struct sti_substitutes *substitutes_lock(stint_pool *pool)
{
    sti_real_mutex_lock(&pool->substitutes.lock);
    return &pool->substitutes;
}

static void substitutes_unlock(stint_pool *pool)
{
    sti_real_mutex_unlock(&pool->substitutes.lock);
}

static unsigned active_in(const struct sti_substitutes *substitutes)
{
    return atomic_load_explicit(&substitutes->active, memory_order_relaxed);
}

static void change_by(atomic_uint *number, int change)
{
    unsigned changed = atomic_load_explicit(number, memory_order_relaxed) + (unsigned)change;
    atomic_store_explicit(number, changed, memory_order_relaxed);
}

static void add_active(struct sti_substitutes *substitutes, int change)
{
    change_by(&substitutes->active, change);
}

static bool is_ending(const struct sti_substitutes *substitutes)
{
    return atomic_load_explicit(&substitutes->ending, memory_order_relaxed);
}

static void count_standing_in(struct sti_substitutes *substitutes, int change)
{
    change_by(&substitutes->substituting, change);
}

static void substitute_retire(struct sti_substitutes *substitutes, struct sti_worker *substitute)
{
    add_active(substitutes, -1);
    count_standing_in(substitutes, -1);
    substitute->next_retired = substitutes->retired;
    substitutes->retired = substitute;
}

static struct sti_worker *substitute_take_retired(struct sti_substitutes *substitutes)
{
    struct sti_worker *substitute = substitutes->retired;
    if (substitute != NULL)
        substitutes->retired = substitute->next_retired;
    return substitute;
}

/* One whose thread has left, and has ended by now. NULL: none. */
static struct sti_worker *take_vacant(struct sti_substitutes *substitutes)
{
    struct sti_worker **link = &substitutes->vacant;
    while (*link != NULL && !(*link)->is_joined && pthread_tryjoin_np((*link)->thread, NULL) != 0)
        link = &(*link)->next_retired;
    struct sti_worker *substitute = *link;
    if (substitute != NULL) {
        *link = substitute->next_retired;
        substitute->is_joined = true;
    }
    return substitute;
}

static struct sti_worker *start_vacant(stint_pool *pool, struct sti_worker *substitute)
{
    struct sti_substitutes *substitutes = &pool->substitutes;
    substitute->is_vacant = substitute->is_joined = false;
    atomic_store_explicit(&substitute->calls, 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&pool->alive, 1, memory_order_relaxed);
    if (sti_above.start_substitute(substitute))
        return substitute;
    atomic_fetch_sub_explicit(&pool->alive, 1, memory_order_relaxed);
    substitute->is_vacant = substitute->is_joined = true;
    substitute->next_retired = substitutes->vacant;
    substitutes->vacant = substitute;
    return NULL;
}

static struct sti_worker *start_one(stint_pool *pool)
{
    struct sti_substitutes *substitutes = &pool->substitutes;
    unsigned index = atomic_load_explicit(&substitutes->slots, memory_order_relaxed);
    struct sti_worker *vacant = substitutes->max > 0 ? take_vacant(substitutes) : NULL;
    if (vacant != NULL)
        return start_vacant(pool, vacant);
    if (index >= pool->worker_count + substitutes->max)
        return NULL;
    struct sti_worker *substitute = &pool->workers[index];
    sti_worker_init(substitute, pool, index);
    atomic_store_explicit(&substitutes->slots, index + 1, memory_order_release); /* for good: thieves look at it now */
    return start_vacant(pool, substitute);
}

/* The substitute that takes it, or NULL. */
static struct sti_worker *give_up_place(stint_pool *pool)
{
    struct sti_substitutes *substitutes = &pool->substitutes;
    change_by(&substitutes->asleep, 1);
    add_active(substitutes, -1);
    if (active_in(substitutes) >= pool->worker_count || is_ending(substitutes))
        return NULL;
    struct sti_worker *substitute = substitute_take_retired(substitutes);
    if (substitute == NULL)
        substitute = start_one(pool);
    if (substitute != NULL) {
        add_active(substitutes, 1);
        count_standing_in(substitutes, 1);
        sti_counter_add_own(&substitutes->replaced);
    } else {
        sti_counter_add_own(&substitutes->unreplaced);
    }
    return substitute;
}

/* If one is too many now, it is best one that is parked. */
static void take_place(stint_pool *pool)
{
    struct sti_substitutes *substitutes = &pool->substitutes;
    change_by(&substitutes->asleep, -1);
    add_active(substitutes, 1);
    if (active_in(substitutes) <= pool->worker_count)
        return;
    struct sti_worker *parked = sti_park_withdraw(pool, pool->worker_count);
    if (parked != NULL)
        substitute_retire(substitutes, parked);
}

/* --- Falling asleep, waking up ------------------------------------------------------------------------------------ */

static bool holds_place(const struct sti_worker *worker)
{
    return worker->asleep == 0 && worker->replaced == 0;
}

/* What its tasks have had by now is charged before others take the place: they may sleep for long, and until their end
 * whoever they belong to would have had nothing but what was guessed at their beginnings. */
static void pay_beforehand(struct sti_worker *worker)
{
    uint64_t end = sti_clock_now();
    for (struct sti_stretch *stretch = worker->stretch; stretch != NULL; stretch = stretch->outer) {
        uint64_t not_used = stretch->begin + stretch->inner; /* the clock may have been ahead */
        if (end > not_used)
            sti_fair_queue_advance(&worker->pool->fair_queue, &stretch->bill, end - not_used);
        end = stretch->begin;
    }
}

bool sti_substitute_fall_asleep(struct sti_worker *worker, unsigned depth)
{
    stint_pool *pool = worker->pool;
    sti_above.share_forks(worker);
    if (worker->stretch != NULL && worker->asleep == 0)
        pay_beforehand(worker);
    const struct sti_substitutes *substitutes = substitutes_lock(pool);
    struct sti_worker *substitute = holds_place(worker) ? give_up_place(pool) : NULL;
    if (worker->asleep == 0)
        worker->slept_since = sti_clock_now();
    worker->asleep += depth;
    bool all_sleep = active_in(substitutes) == 0;
    substitutes_unlock(pool);
    if (substitute != NULL)
        sti_park_place(substitute);
    if (all_sleep) {
        sti_fair_queue_pass_on(&pool->fair_queue);
        sti_deadlock_stir(pool, NULL);
    }
    return all_sleep;
}

void sti_substitute_awake(struct sti_worker *worker, unsigned depth)
{
    stint_pool *pool = worker->pool;
    substitutes_lock(pool);
    worker->asleep -= depth;
    if (worker->asleep == 0 && worker->stretch != NULL)
        worker->stretch->inner += sti_clock_now() - worker->slept_since;
    if (holds_place(worker))
        take_place(pool);
    substitutes_unlock(pool);
}

void sti_substitute_begin_no_more(stint_pool *pool)
{
    struct sti_substitutes *substitutes = substitutes_lock(pool);
    substitutes->max = 0;
    substitutes_unlock(pool);
}

bool sti_substitute_replace(struct sti_worker *worker)
{
    stint_pool *pool = worker->pool;
    substitutes_lock(pool);
    struct sti_worker *substitute = holds_place(worker) ? give_up_place(pool) : NULL;
    worker->replaced++;
    bool is_wide = active_in(&pool->substitutes) >= pool->worker_count;
    substitutes_unlock(pool);
    if (substitute != NULL)
        sti_park_place(substitute);
    return is_wide;
}

void sti_substitute_return(struct sti_worker *worker)
{
    stint_pool *pool = worker->pool;
    substitutes_lock(pool);
    worker->replaced--;
    if (holds_place(worker))
        take_place(pool);
    substitutes_unlock(pool);
}

/* --- The substitute's side --- */

bool sti_substitute_is_surplus(const struct sti_worker *worker)
{
    const stint_pool *pool = worker->pool;
    return worker->index >= pool->worker_count && active_in(&pool->substitutes) > pool->worker_count &&
           !is_ending(&pool->substitutes);
}

static bool try_to_retire(struct sti_worker *worker)
{
    struct sti_substitutes *substitutes = substitutes_lock(worker->pool);
    bool may = sti_substitute_is_surplus(worker);
    if (may)
        substitute_retire(substitutes, worker);
    substitutes_unlock(worker->pool);
    return may;
}

/* Of those that have retired: under the lock. */
static bool take_out_retired(struct sti_substitutes *substitutes, const struct sti_worker *worker)
{
    struct sti_worker **link = &substitutes->retired;
    while (*link != NULL && *link != worker)
        link = &(*link)->next_retired;
    bool found = *link != NULL;
    if (found)
        *link = worker->next_retired;
    return found;
}

/* Its thread is to end, if it has retired: its memory goes with it. What it keeps of tasks only it can end. */
static bool substitute_vacate(struct sti_worker *worker)
{
    sti_subtask_collect();
    if (sti_subtask_keeps_share())
        return false;
    struct sti_substitutes *substitutes = substitutes_lock(worker->pool);
    worker->is_vacant = take_out_retired(substitutes, worker);
    if (worker->is_vacant) {
        worker->next_retired = substitutes->vacant;
        substitutes->vacant = worker;
    }
    substitutes_unlock(worker->pool);
    return worker->is_vacant;
}

bool sti_substitute_sleep(struct sti_worker *worker, uint32_t calls)
{
    bool is_spare = worker->index >= worker->pool->worker_count;
    worker->clock = 0; /* nobody pays for the time until then */
    while (!sti_idle_sleep(worker, calls, is_spare ? sti_deadline_after(SPARE_NS) : STI_NEVER)) {
        if (substitute_vacate(worker)) {
            sti_park_note_awake(worker);
            return false;
        }
    }
    sti_park_note_awake(worker);
    return true;
}

/* Until it is woken, which counts it as searching. False: its thread is to end. */
static bool sleep_retired(struct sti_worker *worker, uint32_t calls)
{
    if (!sti_substitute_sleep(worker, calls))
        return false;
    sti_park_end_search(worker->pool);
    return true;
}

bool sti_substitute_stand_aside(struct sti_worker *worker)
{
    while (sti_substitute_is_surplus(worker)) {
        /* Before it is retired: whoever wakes it after that calls. */
        uint32_t calls = sti_idle_calls(worker);
        if (!try_to_retire(worker))
            return true;
        /* What has come for it until it was on the list; after that, sti_substitute_rouse finds it there. */
        sti_subtask_collect();
        /* Its deque may hold what it leaves to the others; and a wake-up may have been meant for one who goes on. */
        sti_park_hand_on(worker->pool);
        if (!sleep_retired(worker, calls))
            return false;
    }
    return true;
}

void sti_substitute_rouse(struct sti_worker *worker)
{
    if (worker->index < worker->pool->worker_count)
        return;
    struct sti_substitutes *substitutes = substitutes_lock(worker->pool);
    bool found = take_out_retired(substitutes, worker);
    if (found) {
        add_active(substitutes, 1);
        count_standing_in(substitutes, 1);
    }
    substitutes_unlock(worker->pool);
    if (found)
        sti_park_wake_retired(worker);
}

bool sti_substitute_begin(struct sti_worker *worker)
{
    return sleep_retired(worker, 0);
}

void sti_substitute_leave(struct sti_worker *worker)
{
    stint_pool *pool = worker->pool;
    struct sti_substitutes *substitutes = substitutes_lock(pool);
    add_active(substitutes, -1);
    atomic_store_explicit(&substitutes->ending, true, memory_order_relaxed);
    struct sti_worker *substitute;
    while ((substitute = substitute_take_retired(substitutes)) != NULL) {
        add_active(substitutes, 1);
        count_standing_in(substitutes, 1);
        sti_park_wake_retired(substitute);
    }
    substitutes_unlock(pool);
}

/* --- Sleeping until something has come. --- */

int sti_sleep(sti_event *event, bool (*has_come)(const void *arg), const void *arg, uint64_t deadline_ns,
              bool uninterruptible)
{
    struct sti_worker *worker = sti_worker_current();
    struct sti_waking waking;
    uint64_t soon = sti_deadline_after(STI_SHORT_SLEEP_NS);
    if (worker != NULL)
        sti_substitute_fall_asleep(worker, 1);
    int error = sti_event_await(event, has_come, arg, NULL, soon < deadline_ns ? soon : deadline_ns);
    if (error == ETIMEDOUT && soon < deadline_ns && uninterruptible) {
        error = sti_event_await(event, has_come, arg, NULL, deadline_ns);
    } else if (error == ETIMEDOUT && soon < deadline_ns) {
        sti_waking_begin(&waking, sti_event_wake, event);
        error = sti_event_await(event, has_come, arg, &waking, deadline_ns);
        sti_waking_end(&waking);
    }
    if (worker != NULL)
        sti_substitute_awake(worker, 1);
    return error;
}

/* --- The sleep of a worker that has nothing to do; the protocol is in substitute.h. --- */

#define LONG_IDLE_NS UINT64_C(100000000) /* a busy pool's workers never sleep so long */
#define AGAIN_NS UINT64_C(400000000)     /* and while others may free what its tasks have left */

uint32_t sti_idle_calls(const struct sti_worker *worker)
{
    return atomic_load_explicit(&worker->calls, memory_order_acquire);
}

static bool take_asked(struct sti_worker *worker)
{
    return atomic_exchange_explicit(&worker->asked, false, memory_order_seq_cst);
}

bool sti_idle_sleep(struct sti_worker *worker, uint32_t calls, uint64_t until)
{
    uint64_t next = sti_deadline_after(LONG_IDLE_NS);
    bool called;
    atomic_store_explicit(&worker->idle, true, memory_order_relaxed);
    for (;;) {
        uint32_t value = sti_event_value(&worker->wake);
        called = sti_idle_calls(worker) != calls;
        if (called || sti_clock_now() >= until)
            break;
        if (take_asked(worker)) {
            sti_give_back();
            sti_give_back_answer();
        } else if (!sti_event_wait(&worker->wake, value, next < until ? next : until) && sti_clock_now() >= next) {
            next = sti_give_back() ? sti_deadline_after(AGAIN_NS) : STI_NEVER;
        }
    }
    atomic_store_explicit(&worker->idle, false, memory_order_seq_cst);
    if (take_asked(worker))
        sti_give_back_answer();
    return called;
}

void sti_idle_ask(struct sti_worker *worker)
{
    if (!atomic_load_explicit(&worker->idle, memory_order_relaxed))
        return;
    sti_give_back_count();
    if (atomic_exchange_explicit(&worker->asked, true, memory_order_seq_cst))
        sti_give_back_answer(); /* it had been asked already, and answers once */
    sti_event_signal(&worker->wake);
    if (!atomic_load_explicit(&worker->idle, memory_order_seq_cst) && take_asked(worker))
        sti_give_back_answer();
}

/* --- What a worker's thread has. --- */

bool sti_worker_has_stack(const struct sti_worker *worker, size_t size)
{
    uintptr_t left = (uintptr_t)__builtin_frame_address(0) - (uintptr_t)worker->stack;
    return worker->stack == NULL || (left >= size && left < worker->stack_size);
}

static void find_stack(struct sti_worker *worker)
{
    uintptr_t lowest = sti_stack_lowest();
    if (lowest == 0)
        return;
    worker->stack = (void *)lowest;
    worker->stack_size = sti_stack_highest() - lowest;
}

static void lend_place(void)
{
    if (sti_worker_own != NULL)
        sti_substitute_fall_asleep(sti_worker_own, 1);
}

static void take_place_back(void)
{
    if (sti_worker_own != NULL)
        sti_substitute_awake(sti_worker_own, 1);
}

void sti_worker_begin(struct sti_worker *worker)
{
    static const struct sti_lender lender = { .falls_asleep = lend_place, .is_awake = take_place_back };
    char name[STI_THREAD_NAME_SIZE + sizeof "/2047"];
    snprintf(name, sizeof name, "%s/%u", worker->pool->name, worker->index);
    name[STI_THREAD_NAME_SIZE - 1] = '\0';
    pthread_setname_np(pthread_self(), name);
    sti_stack_begin();
    find_stack(worker);
    sti_blocking_set_lender(&lender);
    sti_worker_own = worker;
}
