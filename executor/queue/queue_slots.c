/* SPDX-License-Identifier: MIT
 *
 * The lines of those that wait for a slot; see queue_slots.h. */
#include "queue_slots.h"

#include <errno.h>
#include <sched.h>
#include <stddef.h>

#include "alloc/platform/module.h"
#include "alloc/platform/process.h"
#include "executor/base/hooks.h"
#include "executor/base/state.h"
#include "fair_queue.h"

/* So many lines are told in vain that there is no slot for them, for each slot that is filled: it costs the same
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

static struct sti_slot_line **find(struct sti_queue_slots *queue_slots, const stint_account *account,
                                   stint_priority priority, bool due)
{
    uint64_t key = ((uint64_t)(uintptr_t)account + (uint64_t)priority * 2 + due) * UINT64_C(0x9e3779b97f4a7c15);
    struct sti_slot_line **link = &queue_slots->table[(key >> 32) % STI_QUEUE_SLOTS_TABLE];
    while (*link != NULL && ((*link)->account != account || (*link)->priority != priority || (*link)->due != due))
        link = &(*link)->chain;
    return link;
}

static struct sti_slot_lines *ring_of(struct sti_queue_slots *queue_slots, const struct sti_slot_line *line)
{
    return line->capped ? &queue_slots->capped : &queue_slots->rings[line->due];
}

static void move(struct sti_queue_slots *queue_slots, struct sti_slot_line *line, bool capped)
{
    TAILQ_REMOVE(ring_of(queue_slots, line), line, ring);
    line->capped = capped;
    TAILQ_INSERT_TAIL(ring_of(queue_slots, line), line, ring);
}

/* Of its account and priority. NULL: no memory. */
static struct sti_slot_line *line_for(struct sti_queue_slots *queue_slots, const struct sti_slot_waiter *waiter)
{
    const stint_options *options = &waiter->task->options;
    bool due = waiter->kind->due;
    if (sti_admission_is_plain(waiter->task))
        return &queue_slots->plain[due];
    struct sti_slot_line **link = find(queue_slots, options->account, options->priority, due);
    if (*link != NULL)
        return *link;
    struct sti_slot_line *line = sti_process_malloc(sizeof *line);
    if (line == NULL)
        return NULL;
    *line = (struct sti_slot_line){ .account = options->account, .priority = options->priority, .due = due };
    TAILQ_INIT(&line->waiters);
    *link = line;
    TAILQ_INSERT_TAIL(&queue_slots->rings[due], line, ring);
    return line;
}

static bool is_plain(const struct sti_queue_slots *queue_slots, const struct sti_slot_line *line)
{
    return line == &queue_slots->plain[0] || line == &queue_slots->plain[1];
}

static void end_line(struct sti_queue_slots *queue_slots, struct sti_slot_line *line)
{
    if (is_plain(queue_slots, line))
        return;
    *find(queue_slots, line->account, line->priority, line->due) = line->chain;
    TAILQ_REMOVE(ring_of(queue_slots, line), line, ring);
    sti_process_free(line);
}

/* False: no memory. */
static bool join_line(struct sti_queue_slots *queue_slots, struct sti_slot_waiter *waiter)
{
    struct sti_slot_line *line = line_for(queue_slots, waiter);
    if (line == NULL)
        return false;
    waiter->line = line;
    if (!TAILQ_EMPTY(&line->waiters))
        waiter->task->stood_in_line = true;
    TAILQ_INSERT_TAIL(&line->waiters, waiter, link);
    atomic_fetch_add_explicit(&queue_slots->plain_line, is_plain(queue_slots, line), memory_order_seq_cst);
    atomic_fetch_add_explicit(&queue_slots->line, 1, memory_order_seq_cst);
    return true;
}

static void leave_line(struct sti_queue_slots *queue_slots, struct sti_slot_waiter *waiter)
{
    struct sti_slot_line *line = waiter->line;
    waiter->line = NULL;
    TAILQ_REMOVE(&line->waiters, waiter, link);
    atomic_fetch_sub_explicit(&queue_slots->plain_line, is_plain(queue_slots, line), memory_order_relaxed);
    atomic_fetch_sub_explicit(&queue_slots->line, 1, memory_order_relaxed);
    if (TAILQ_EMPTY(&line->waiters))
        end_line(queue_slots, line);
}

/* A task that somebody has ended is told nothing. */
static void answer(struct sti_queue_slots *queue_slots, struct sti_slot_waiter *waiter, int result)
{
    leave_line(queue_slots, waiter);
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

/* The waiter that has stood in line longest. 0: it has been answered; EAGAIN: there is no slot for it; EDQUOT: its
 * account has its maximum of waiting tasks. */
static int serve(stint_pool *pool, const struct sti_slot_line *line)
{
    struct sti_slot_waiter *waiter = TAILQ_FIRST(&line->waiters);
    int error = waiter->kind->put(pool, waiter);
    if (sti_admission_is_full(error)) {
        waiter->task->stood_in_line = true;
        return error;
    }
    answer(&pool->queue_slots, waiter, error);
    if (error == 0)
        sti_above.notify(pool);
    return 0;
}

static void serve_plain(stint_pool *pool, const struct sti_slot_line *line)
{
    while (!TAILQ_EMPTY(&line->waiters) && serve(pool, line) == 0)
        ;
}

static void serve_ring(stint_pool *pool, struct sti_slot_lines *ring)
{
    struct sti_slot_line *line;
    for (unsigned refusals = 0; refusals < REFUSALS_MAX && (line = TAILQ_FIRST(ring)) != NULL;) {
        TAILQ_REMOVE(ring, line, ring);
        TAILQ_INSERT_TAIL(ring, line, ring);
        int error = serve(pool, line);
        if (error == EDQUOT)
            move(&pool->queue_slots, line, true);
        else if (error == EAGAIN)
            refusals++;
    }
}

static void fill(stint_pool *pool)
{
    struct sti_queue_slots *queue_slots = &pool->queue_slots;
    for (int due = 1; due >= 0; due--) {
        serve_plain(pool, &queue_slots->plain[due]);
        serve_ring(pool, &queue_slots->rings[due]);
    }
}

/* --- With their own locking --------------------------------------------------------------------------------------- */

static void unlock(struct sti_queue_slots *queue_slots)
{
    struct sti_slot_waiter *answered = queue_slots->answered;
    queue_slots->answered = NULL;
    sti_plain_mutex_unlock(&queue_slots->lock);
    while (answered != NULL) {
        struct sti_slot_waiter *waiter = answered;
        answered = waiter->next_answered;
        waiter->kind->answer(waiter, atomic_load_explicit(&waiter->answer, memory_order_relaxed));
    }
}

/* Those who wait for one that is due have seen that there was a slot for it, maybe. */
static void tell_refused(stint_pool *pool)
{
    if (atomic_load_explicit(&pool->queue_slots.line, memory_order_relaxed) != 0)
        sti_above.look_again();
}

/* While something in the room is not held back, that goes out and makes a slot. */
void sti_queue_slots_fill(stint_pool *pool)
{
    sti_plain_mutex_lock(&pool->queue_slots.lock);
    fill(pool);
    unlock(&pool->queue_slots);
    if (sti_fair_queue_is_jammed(&pool->fair_queue))
        tell_refused(pool);
}

void sti_queue_slots_fill_capped(stint_pool *pool)
{
    struct sti_queue_slots *queue_slots = &pool->queue_slots;
    struct sti_slot_line *line;
    sti_plain_mutex_lock(&queue_slots->lock);
    while ((line = TAILQ_FIRST(&queue_slots->capped)) != NULL)
        move(queue_slots, line, false);
    fill(pool);
    unlock(queue_slots);
    tell_refused(pool);
}

static void refuse_all(struct sti_queue_slots *queue_slots, const struct sti_slot_line *line)
{
    struct sti_slot_waiter *waiter;
    for (bool last = false; !last && (waiter = TAILQ_FIRST(&line->waiters)) != NULL;) {
        last = TAILQ_NEXT(waiter, link) == NULL; /* then the line is gone */
        bool refused = waiter->kind->refuse == NULL || waiter->kind->refuse(waiter);
        answer(queue_slots, waiter, refused ? ESHUTDOWN : ECANCELED);
    }
}

void sti_queue_slots_close(stint_pool *pool)
{
    struct sti_queue_slots *queue_slots = &pool->queue_slots;
    struct sti_slot_lines *rings[] = { &queue_slots->rings[1], &queue_slots->rings[0], &queue_slots->capped };
    sti_plain_mutex_lock(&queue_slots->lock);
    queue_slots->closed = true;
    for (int due = 1; due >= 0; due--)
        refuse_all(queue_slots, &queue_slots->plain[due]);
    for (size_t i = 0; i < sizeof rings / sizeof *rings; i++) {
        while (!TAILQ_EMPTY(rings[i]))
            refuse_all(queue_slots, TAILQ_FIRST(rings[i]));
    }
    unlock(queue_slots);
}

int sti_queue_slots_stand(stint_pool *pool, struct sti_slot_waiter *waiter)
{
    struct sti_queue_slots *queue_slots = &pool->queue_slots;
    int result = ESHUTDOWN;
    sti_plain_mutex_lock(&queue_slots->lock);
    if (!queue_slots->closed)
        result = join_line(queue_slots, waiter) ? 0 : ENOMEM;
    if (result == 0) {
        if (waiter->kind->stands != NULL)
            waiter->kind->stands(waiter);
        fill(pool);
    }
    unlock(queue_slots);
    return result;
}

void sti_queue_slots_leave(stint_pool *pool, struct sti_slot_waiter *waiter)
{
    sti_plain_mutex_lock(&pool->queue_slots.lock);
    if (waiter->line != NULL)
        leave_line(&pool->queue_slots, waiter);
    sti_plain_mutex_unlock(&pool->queue_slots.lock);
}

bool sti_queue_slots_stands(stint_pool *pool, const struct sti_slot_waiter *waiter, stint_account **account)
{
    sti_plain_mutex_lock(&pool->queue_slots.lock);
    bool stands = waiter->line != NULL;
    *account = stands ? stint_account_retain(waiter->line->account) : NULL;
    sti_plain_mutex_unlock(&pool->queue_slots.lock);
    return stands;
}
