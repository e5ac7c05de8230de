/* SPDX-License-Identifier: MIT
 *
 * The worker's loop: find a task, run it, until the pool has closed and nothing is left. */
#include "worker.h"

#include <sched.h>
#include <stddef.h>
#include <stint/pool.h>
#include <string.h>

#include "alloc/interrupt/boundary.h"
#include "alloc/meter/global.h"
#include "alloc/platform/clock.h"
#include "alloc/platform/instrumentation.h"
#include "alloc/platform/process.h"
#include "alloc/platform/thread.h"
#include "alloc/platform/tracing.h"
#include "alloc/scope/subtask.h"
#include "executor/base/event.h"
#include "executor/base/hooks.h"
#include "executor/base/state.h"
#include "executor/queue/fair_queue.h"
#include "executor/queue/queue_slots.h"
#include "executor/task/continuation.h"
#include "executor/task/farewells.h"
#include "executor/task/task.h"
#include "park.h"
#include "run.h"
#include "substitute.h"

/* How often a searcher looks at every source before it parks: some 10 microseconds in all, about what sleeping and
 * being woken cost. */
#define SEARCH_ROUNDS 40

/* Every so many plain tasks one comes first from where the worker otherwise comes late or never: so nothing that never
 * runs empty can starve anything else. Of four such turns two are for the submission queue, one for the oldest task of
 * the worker's own deque, and one for the oldest of another's, each in turn: docs/pool.md has the bounds. */
#define OTHER_TURN 16

/* And so many times another priority than the highest: see stint_priority. */
#define NORMAL_TURN 8
#define LOW_TURN 64

#define LONGEST_HOLD_NS UINT64_C(100000000)

STI_FORK_HANDLER void sti_worker_in_child(void)
{
    if (!sti_process_is_partial())
        return;
    sti_worker_own = NULL;
    sti_above.leave_forks();
}

/* --- Finding a task ----------------------------------------------------------------------------------------------- */

typedef void *source_fn(struct sti_worker *worker);

static void *from_deque(struct sti_worker *worker)
{
    return sti_deque_take(&worker->deque);
}

static void *from_queue(struct sti_worker *worker)
{
    return sti_queue_pop(&worker->pool->queue);
}

uint32_t sti_worker_random(struct sti_worker *worker)
{
    worker->random ^= worker->random << 13;
    worker->random ^= worker->random >> 17;
    worker->random ^= worker->random << 5;
    return worker->random;
}

struct sti_victims sti_victims_of(struct sti_worker *worker)
{
    unsigned slots = sti_pool_slots(worker->pool);
    return (struct sti_victims){ .next = sti_worker_random(worker) % slots, .left = slots, .slots = slots };
}

struct sti_worker *sti_victims_next(struct sti_victims *victims, const struct sti_worker *worker)
{
    struct sti_worker *victim = NULL;
    while (victim == NULL && victims->left-- > 0) {
        if (victims->next != worker->index)
            victim = &worker->pool->workers[victims->next];
        if (++victims->next == victims->slots)
            victims->next = 0;
    }
    return victim;
}

static void *from_others(struct sti_worker *worker)
{
    struct sti_victims victims = sti_victims_of(worker);
    struct sti_worker *victim;
    void *entry = NULL;
    while (entry == NULL && (victim = sti_victims_next(&victims, worker)) != NULL)
        entry = sti_deque_steal(&victim->deque);
    return entry;
}

static void worker_drop(struct sti_worker *worker, sti_task *task)
{
    sti_farewell_drop(worker->pool, task);
}

/* The source's next task that nobody has claimed yet, claimed; entries of others are dropped. */
static sti_task *claim_from(struct sti_worker *worker, source_fn *source)
{
    sti_task *task;
    while ((task = source(worker)) != NULL && !sti_task_claim(task))
        worker_drop(worker, task);
    return task;
}

static void *from_deque_s_other_end(struct sti_worker *worker)
{
    return sti_deque_steal(&worker->deque);
}

static void note_theft(struct sti_worker *worker, sti_task *task)
{
    STI_PROBE2(steal, task, worker);
    if (sti_trace_runs())
        task->submitter = sti_trace_steal(&task->options, task->submitted_ns, task->submitter);
    sti_counter_add_own(&worker->steals);
}

static sti_task *claim_from_next_other(struct sti_worker *worker)
{
    unsigned victim = worker->next_victim++ % sti_pool_slots(worker->pool);
    struct sti_deque *deque = &worker->pool->workers[victim].deque;
    sti_task *task = NULL;
    if (victim == worker->index)
        return NULL;
    while ((task = sti_deque_steal(deque)) != NULL && !sti_task_claim(task))
        worker_drop(worker, task);
    if (task != NULL)
        note_theft(worker, task);
    return task;
}

static __attribute__((noinline)) sti_task *claim_other(struct sti_worker *worker)
{
    switch (worker->plain_turn / OTHER_TURN % 4) {
    case 0:
        return claim_from_next_other(worker);
    case 2:
        return claim_from(worker, from_deque_s_other_end);
    default:
        return claim_from(worker, from_queue);
    }
}

static sti_task *claim_plain(struct sti_worker *worker)
{
    sti_task *task = ++worker->plain_turn % OTHER_TURN == 0 ? claim_other(worker) : NULL;
    if (task == NULL)
        task = claim_from(worker, from_deque);
    return task != NULL ? task : claim_from(worker, from_queue);
}

/* Plain tasks are one entry among those that are ready. */
static sti_task *claim_plain_in_turn(struct sti_worker *worker)
{
    sti_task *task = claim_plain(worker);
    if (task != NULL)
        worker->bill = sti_fair_queue_bill_plain(&worker->pool->fair_queue);
    return task;
}

static sti_task *claim_normal(struct sti_worker *worker)
{
    struct sti_fair_queue *fair_queue = &worker->pool->fair_queue;
    bool plain_first = sti_fair_queue_is_plain_next(fair_queue);
    sti_task *task = plain_first ? claim_plain_in_turn(worker) : NULL;
    if (task == NULL)
        task = sti_fair_queue_take(fair_queue, STINT_PRIORITY_NORMAL, plain_first);
    return task != NULL || plain_first ? task : claim_plain_in_turn(worker);
}

static sti_task *claim_of(struct sti_worker *worker, stint_priority priority)
{
    return priority == STINT_PRIORITY_NORMAL ? claim_normal(worker)
                                             : sti_fair_queue_take(&worker->pool->fair_queue, priority, false);
}

static __attribute__((noinline)) sti_task *claim_by_priority(struct sti_worker *worker)
{
    static const stint_priority usual[] = { STINT_PRIORITY_HIGH, STINT_PRIORITY_NORMAL, STINT_PRIORITY_LOW };
    unsigned turn = worker->turn;
    stint_priority first = turn % LOW_TURN == 1      ? STINT_PRIORITY_LOW
                           : turn % NORMAL_TURN == 0 ? STINT_PRIORITY_NORMAL
                                                     : STINT_PRIORITY_HIGH;
    sti_task *task = claim_of(worker, first);
    for (size_t i = 0; i < STI_PRIORITIES && task == NULL; i++) {
        if (usual[i] != first)
            task = claim_of(worker, usual[i]);
    }
    return task;
}

static sti_task *claim_near(struct sti_worker *worker)
{
    worker->turn++;
    stint_pool *pool = worker->pool;
    sti_task *task = sti_fair_queue_are_ready(&pool->fair_queue) ? claim_by_priority(worker) : claim_plain(worker);
    if (__builtin_expect(sti_queue_slots_are_wanted(&pool->queue_slots), 0))
        sti_queue_slots_fill(pool);
    return task;
}

/* One of the two. */
struct found {
    sti_task *task;
    struct sti_stolen stolen;
};

/* Forks of running tasks before other workers' queued ones: a running task holds memory already. */
static bool look_everywhere(struct sti_worker *worker, struct found *found)
{
    found->task = claim_near(worker);
    if (found->task == NULL)
        found->stolen = sti_above.steal_fork(worker, NULL);
    if (found->task == NULL && found->stolen.offer == NULL && (found->task = claim_from(worker, from_others)) != NULL)
        note_theft(worker, found->task);
    return found->task != NULL || found->stolen.offer != NULL;
}

static bool worker_search(struct sti_worker *worker, struct found *found)
{
    for (unsigned round = 0; round < SEARCH_ROUNDS; round++) {
        if (look_everywhere(worker, found))
            return true;
        if (!sti_pool_is_open(worker->pool)) {
            sched_yield(); /* a push that has not ended may delay the last of the queue */
            return false;
        }
        sti_rest(round);
    }
    return false;
}

/* False: the worker must leave. */
static bool worker_find(struct sti_worker *worker, struct found *found)
{
    for (;;) {
        if (!sti_substitute_stand_aside(worker))
            return false;
        *found = (struct found){ .task = claim_near(worker) };
        if (found->task != NULL)
            return true;
        bool has_found = false;
        worker->clock = 0;
        sti_park_begin_search(worker->pool);
        while (!sti_substitute_is_surplus(worker) && !(has_found = worker_search(worker, found))) {
            sti_counter_add_own(&worker->parks);
            if (!sti_park_wait(worker))
                return false;
        }
        sti_park_end_search(worker->pool);
        if (has_found)
            return true;
    }
}

/* --- Running ------------------------------------------------------------------------------------------------------ */

bool sti_worker_is_inside(const struct sti_worker *worker, const sti_task *task)
{
    const struct sti_frame *frame = sti_worker_frame(worker);
    while (frame != NULL && frame->task != task)
        frame = frame->below;
    return frame != NULL;
}

static void notify_application(const struct sti_worker *worker, stint_worker_fn *function)
{
    if (function == NULL)
        return;
    sti_continuation_begin_callback();
    STI_BOUNDARY_CALLBACK(function, worker->pool->options.worker_data, worker->index, NULL);
    sti_continuation_end_callback();
}

/* hold_near_memory_limit: near the limit of the process a task waits a little, so that those that run can end. Not for
 * ever: they may be waiting for this one. */
static void hold_back(const stint_pool *pool)
{
    uint64_t end = sti_clock_now() + LONGEST_HOLD_NS;
    if (sti_global_is_near())
        sti_give_back_all();
    while (sti_pool_is_open(pool) && sti_global_is_near() && sti_clock_now() < end)
        sti_thread_nap(1000000);
}

void *sti_worker_main(void *argument)
{
    struct sti_worker *worker = argument;
    stint_pool *pool = worker->pool;
    sti_worker_begin(worker);
    sti_child_set_masks(&pool->signals);
    notify_application(worker, pool->options.worker_begins);
    sti_above.begin_forks(worker);
    struct sti_thread *record = sti_thread_own();
    atomic_store_explicit(&worker->record, record, memory_order_release);
    if (record != NULL)
        record->report_level = pool->options.report;
    bool is_needed = worker->index < pool->worker_count || sti_substitute_begin(worker);
    struct found found;
    while (is_needed && worker_find(worker, &found)) {
        if (found.task != NULL) {
            if (pool->options.hold_near_memory_limit)
                hold_back(pool);
            sti_worker_run(worker, found.task);
            if (__builtin_expect(found.task->outcome.usage.queued_ns >= STINT_NEGLECT_NS / 100, 0))
                sti_above.note_neglect(worker, found.task);
            if (pool->hooks != NULL)
                pool->hooks->tidy(worker, found.task);
            sti_task_release(found.task);
        } else {
            sti_worker_run_stolen(worker, found.stolen);
        }
        worker->idled_since = 0;
        sti_subtask_collect();
    }
    sti_above.end_forks();
    if (worker->is_vacant)
        atomic_store_explicit(&worker->record, NULL, memory_order_release); /* it will be another thread's */
    else
        sti_substitute_leave(worker);
    notify_application(worker, pool->options.worker_ends);
    sti_worker_own = NULL;
    sti_above.leave_pool(pool);
    return NULL;
}

/* --- From inside a task ------------------------------------------------------------------------------------------- */

/* Give room back that dead entries take: those of tasks that were run while somebody waited for them. */
static void worker_sweep(struct sti_worker *worker)
{
    sti_task *alive[STI_DEQUE_CAPACITY];
    size_t count = 0;
    sti_task *task;
    while ((task = sti_deque_take(&worker->deque)) != NULL) {
        if (sti_task_is_queued(task))
            alive[count++] = task;
        else
            worker_drop(worker, task);
    }
    /* They came newest first; there is room for all of them, because only this thread puts any in. */
    while (count > 0)
        sti_deque_push(&worker->deque, alive[--count]);
    worker->buried = 0;
}

bool sti_worker_put(struct sti_worker *worker, sti_task *task)
{
    if (sti_deque_push(&worker->deque, task))
        return true;
    if (worker->buried > 0) {
        worker_sweep(worker);
        if (sti_deque_push(&worker->deque, task))
            return true;
        /* A worker that looked while the entries were out has found nothing and may have parked. */
        sti_park_notify(worker->pool);
    }
    return sti_queue_push(&worker->pool->queue, task);
}

void sti_worker_run_awaited(struct sti_worker *worker, sti_task *task)
{
    worker->clock = 0; /* it did not come from a task's end: the waiter has gone on since that, and may have slept */
    if (task->fair_queue != NULL) {
        sti_task_release(task); /* its entry's */
        sti_worker_run(worker, task);
        return;
    }
    /* Most often it is the newest entry: then its slot is free again at once. */
    sti_task *newest = sti_deque_take(&worker->deque);
    if (newest == task) {
        sti_task_release(newest);
    } else {
        worker->buried++;
        if (newest != NULL) {
            sti_deque_push(&worker->deque, newest);
            sti_park_notify(worker->pool); /* as in sti_worker_put */
        }
    }
    sti_worker_run(worker, task);
}
