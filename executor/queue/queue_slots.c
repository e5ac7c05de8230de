/* SPDX-License-Identifier: MIT
 *
 * The queues of those that wait for a slot; see queue_slots.h. */
#include "queue_slots.h"

#include <errno.h>
#include <sched.h>
#include <stddef.h>

#include "alloc/platform/instrumentation.h"
#include "alloc/platform/module.h"
#include "alloc/platform/process.h"
#include "executor/base/hooks.h"
#include "executor/base/state.h"
#include "fair_queue.h"

/* So many queues are notified in vain that there is no slot for them, for each slot that is filled: it costs the same
 * however many wait. */
#define REFUSALS_MAX 8

void sti_queue_slots_init(struct sti_queue_slots *queue_slots)
{
    pthread_mutex_init(&queue_slots->lock, NULL);
    TAILQ_INIT(&queue_slots->capped);
    for (int due = 0; due < 2; due++) {
        TAILQ_INIT(&queue_slots->plain[due].waiters);
        TAILQ_INIT(&queue_slots->rings[due]);
    }
}

void sti_queue_slots_end(struct sti_queue_slots *queue_slots)
{
    while (atomic_load_explicit(&queue_slots->fillers, memory_order_acquire) != 0)
        sched_yield();
    pthread_mutex_destroy(&queue_slots->lock);
}

/* --- Lines, under the lock ---------------------------------------------------------------------------------------- */

static struct sti_slot_queue **slot_queue_find(struct sti_queue_slots *queue_slots, const stint_account *account,
                                               stint_priority priority, bool due)
{
    uint64_t key = ((uint64_t)(uintptr_t)account + (uint64_t)priority * 2 + due) * UINT64_C(0x9e3779b97f4a7c15);
    struct sti_slot_queue **link = &queue_slots->table[(key >> 32) % STI_QUEUE_SLOTS_TABLE];
    while (*link != NULL && ((*link)->account != account || (*link)->priority != priority || (*link)->due != due))
        link = &(*link)->chain;
    return link;
}

static struct sti_slot_queues *slot_queue_ring(struct sti_queue_slots *queue_slots, const struct sti_slot_queue *queue)
{
    return queue->capped ? &queue_slots->capped : &queue_slots->rings[queue->due];
}

static void slot_queue_move(struct sti_queue_slots *queue_slots, struct sti_slot_queue *queue, bool capped)
{
    TAILQ_REMOVE(slot_queue_ring(queue_slots, queue), queue, ring);
    queue->capped = capped;
    TAILQ_INSERT_TAIL(slot_queue_ring(queue_slots, queue), queue, ring);
}

/* Of its account and priority. NULL: no memory. */
static struct sti_slot_queue *slot_queue_for(struct sti_queue_slots *queue_slots, const struct sti_slot_waiter *waiter)
{
    const stint_options *options = &waiter->task->options;
    bool due = waiter->kind->due;
    if (sti_admission_is_plain(waiter->task))
        return &queue_slots->plain[due];
    struct sti_slot_queue **link = slot_queue_find(queue_slots, options->account, options->priority, due);
    if (*link != NULL)
        return *link;
    struct sti_slot_queue *queue = sti_process_malloc(sizeof *queue);
    if (queue == NULL)
        return NULL;
    *queue = (struct sti_slot_queue){ .account = options->account, .priority = options->priority, .due = due };
    TAILQ_INIT(&queue->waiters);
    *link = queue;
    TAILQ_INSERT_TAIL(&queue_slots->rings[due], queue, ring);
    return queue;
}

static bool is_plain(const struct sti_queue_slots *queue_slots, const struct sti_slot_queue *queue)
{
    return queue == &queue_slots->plain[0] || queue == &queue_slots->plain[1];
}

static void slot_queue_end(struct sti_queue_slots *queue_slots, struct sti_slot_queue *queue)
{
    if (is_plain(queue_slots, queue))
        return;
    *slot_queue_find(queue_slots, queue->account, queue->priority, queue->due) = queue->chain;
    TAILQ_REMOVE(slot_queue_ring(queue_slots, queue), queue, ring);
    sti_process_free(queue);
}

/* False: no memory. */
static bool slot_waiter_join(struct sti_queue_slots *queue_slots, struct sti_slot_waiter *waiter)
{
    struct sti_slot_queue *queue = slot_queue_for(queue_slots, waiter);
    if (queue == NULL)
        return false;
    waiter->queue = queue;
    if (!TAILQ_EMPTY(&queue->waiters))
        waiter->task->was_queued_for_slot = true;
    TAILQ_INSERT_TAIL(&queue->waiters, waiter, link);
    atomic_fetch_add_explicit(&queue_slots->plain_queued, is_plain(queue_slots, queue), memory_order_relaxed);
    atomic_fetch_add_explicit(&queue_slots->queue, 1, memory_order_relaxed);
    sti_fence(); /* the next try reads the queue by weaker loads */
    return true;
}

static void slot_waiter_leave(struct sti_queue_slots *queue_slots, struct sti_slot_waiter *waiter)
{
    struct sti_slot_queue *queue = waiter->queue;
    waiter->queue = NULL;
    TAILQ_REMOVE(&queue->waiters, waiter, link);
    atomic_fetch_sub_explicit(&queue_slots->plain_queued, is_plain(queue_slots, queue), memory_order_relaxed);
    atomic_fetch_sub_explicit(&queue_slots->queue, 1, memory_order_relaxed);
    if (TAILQ_EMPTY(&queue->waiters))
        slot_queue_end(queue_slots, queue);
}

/* A task that somebody has ended is told nothing. */
static void slot_waiter_answer(struct sti_queue_slots *queue_slots, struct sti_slot_waiter *waiter, int result)
{
    slot_waiter_leave(queue_slots, waiter);
    if (result == ECANCELED)
        return;
    /* release: for what the answer says has been done. */
    atomic_store_explicit(&waiter->answer, result, memory_order_release);
    if (waiter->kind->answer == NULL) {
        sti_event_signal(&waiter->answered);
    } else {
        waiter->next_answered = queue_slots->answered;
        queue_slots->answered = waiter;
    }
}

/* --- Slots, under the lock ---------------------------------------------------------------------------------------- */

/* The waiter that has stood in its queue longest. 0: it has been answered; EAGAIN: there is no slot for it; EDQUOT: its
 * account has its maximum of waiting tasks. */
static int slot_queue_serve(stint_pool *pool, const struct sti_slot_queue *queue)
{
    struct sti_slot_waiter *waiter = TAILQ_FIRST(&queue->waiters);
    int error = waiter->kind->put(pool, waiter);
    if (sti_admission_is_full(error)) {
        waiter->task->was_queued_for_slot = true;
        return error;
    }
    slot_waiter_answer(&pool->queue_slots, waiter, error);
    if (error == 0)
        sti_above.notify(pool);
    return 0;
}

static void serve_plain(stint_pool *pool, const struct sti_slot_queue *queue)
{
    while (!TAILQ_EMPTY(&queue->waiters) && slot_queue_serve(pool, queue) == 0)
        ;
}

static void serve_ring(stint_pool *pool, struct sti_slot_queues *ring)
{
    struct sti_slot_queue *queue;
    for (unsigned refusals = 0; refusals < REFUSALS_MAX && (queue = TAILQ_FIRST(ring)) != NULL;) {
        TAILQ_REMOVE(ring, queue, ring);
        TAILQ_INSERT_TAIL(ring, queue, ring);
        int error = slot_queue_serve(pool, queue);
        if (error == EDQUOT)
            slot_queue_move(&pool->queue_slots, queue, true);
        else if (error == EAGAIN)
            refusals++;
    }
}

static void queue_slots_fill(stint_pool *pool)
{
    struct sti_queue_slots *queue_slots = &pool->queue_slots;
    for (int due = 1; due >= 0; due--) {
        serve_plain(pool, &queue_slots->plain[due]);
        serve_ring(pool, &queue_slots->rings[due]);
    }
}

/* --- With their own locking --------------------------------------------------------------------------------------- */

static void queue_slots_unlock(struct sti_queue_slots *queue_slots)
{
    struct sti_slot_waiter *answered = queue_slots->answered;
    queue_slots->answered = NULL;
    sti_real_mutex_unlock(&queue_slots->lock);
    while (answered != NULL) {
        struct sti_slot_waiter *waiter = answered;
        answered = waiter->next_answered;
        waiter->kind->answer(waiter, atomic_load_explicit(&waiter->answer, memory_order_relaxed));
    }
}

/* Those who wait for one that is due have seen that there was a slot for it, maybe. */
static void tell_refused(stint_pool *pool)
{
    if (atomic_load_explicit(&pool->queue_slots.queue, memory_order_relaxed) != 0)
        sti_above.look_again();
}

/* While something in the room is not held back, that goes out and makes a slot. */
void sti_queue_slots_fill(stint_pool *pool)
{
    sti_real_mutex_lock(&pool->queue_slots.lock);
    queue_slots_fill(pool);
    queue_slots_unlock(&pool->queue_slots);
    if (sti_fair_queue_is_jammed(&pool->fair_queue))
        tell_refused(pool);
}

void sti_queue_slots_fill_capped(stint_pool *pool)
{
    struct sti_queue_slots *queue_slots = &pool->queue_slots;
    struct sti_slot_queue *queue;
    sti_real_mutex_lock(&queue_slots->lock);
    while ((queue = TAILQ_FIRST(&queue_slots->capped)) != NULL)
        slot_queue_move(queue_slots, queue, false);
    queue_slots_fill(pool);
    queue_slots_unlock(queue_slots);
    tell_refused(pool);
}

static void refuse_all(struct sti_queue_slots *queue_slots, const struct sti_slot_queue *queue)
{
    struct sti_slot_waiter *waiter;
    for (bool last = false; !last && (waiter = TAILQ_FIRST(&queue->waiters)) != NULL;) {
        last = TAILQ_NEXT(waiter, link) == NULL; /* then the queue is gone */
        bool refused = waiter->kind->refuse == NULL || waiter->kind->refuse(waiter);
        slot_waiter_answer(queue_slots, waiter, refused ? ESHUTDOWN : ECANCELED);
    }
}

void sti_queue_slots_close(stint_pool *pool)
{
    struct sti_queue_slots *queue_slots = &pool->queue_slots;
    struct sti_slot_queues *rings[] = { &queue_slots->rings[1], &queue_slots->rings[0], &queue_slots->capped };
    sti_real_mutex_lock(&queue_slots->lock);
    queue_slots->closed = true;
    for (int due = 1; due >= 0; due--)
        refuse_all(queue_slots, &queue_slots->plain[due]);
    for (size_t i = 0; i < sizeof rings / sizeof *rings; i++) {
        while (!TAILQ_EMPTY(rings[i]))
            refuse_all(queue_slots, TAILQ_FIRST(rings[i]));
    }
    queue_slots_unlock(queue_slots);
}

int sti_queue_slots_stand(stint_pool *pool, struct sti_slot_waiter *waiter)
{
    struct sti_queue_slots *queue_slots = &pool->queue_slots;
    int result = ESHUTDOWN;
    sti_real_mutex_lock(&queue_slots->lock);
    if (!queue_slots->closed)
        result = slot_waiter_join(queue_slots, waiter) ? 0 : ENOMEM;
    if (result == 0) {
        if (waiter->kind->stands != NULL)
            waiter->kind->stands(waiter);
        queue_slots_fill(pool);
    }
    queue_slots_unlock(queue_slots);
    return result;
}

void sti_queue_slots_leave(stint_pool *pool, struct sti_slot_waiter *waiter)
{
    sti_real_mutex_lock(&pool->queue_slots.lock);
    if (waiter->queue != NULL)
        slot_waiter_leave(&pool->queue_slots, waiter);
    sti_real_mutex_unlock(&pool->queue_slots.lock);
}

bool sti_queue_slots_stands(stint_pool *pool, const struct sti_slot_waiter *waiter, stint_account **account)
{
    sti_real_mutex_lock(&pool->queue_slots.lock);
    bool stands = waiter->queue != NULL;
    *account = stands ? stint_account_retain(waiter->queue->account) : NULL;
    sti_real_mutex_unlock(&pool->queue_slots.lock);
    return stands;
}
