/* SPDX-License-Identifier: MIT
 *
 * Submitters who wait for a slot; see queue_slots.h. */
#include "queue_slots.h"

#include <errno.h>
#include <stddef.h>

#include "alloc/base/module.h"
#include "alloc/base/process.h"
#include "alloc/interrupt/hook.h"
#include "executor/base/event.h"
#include "executor/pool/pool_state.h"
#include "executor/task/submit.h"
#include "executor/worker/park.h"
#include "executor/worker/substitute.h"
#include "executor/worker/worker.h"

#define WAITING (-1)

/* So many lines are told in vain that there is no slot for them, for each slot that is filled: it costs the same
 * however many wait. */
#define REFUSALS_MAX 8

#define SHORT_SLEEP_NS UINT64_C(10000000)

/* On the waiter's stack. */
struct sti_slot_waiter {
    struct sti_slot_waiter *next;
    struct sti_slot_waiter *previous;
    struct sti_slot_waiters *line;
    sti_task *task;
    stint_future **future;
    atomic_int answer; /* WAITING, 0 or an errno value */
    sti_event answered;
};

void sti_queue_slots_init(struct sti_queue_slots *queue_slots)
{
    atomic_init(&queue_slots->line, 0);
    atomic_init(&queue_slots->plain_line, 0);
    pthread_mutex_init(&queue_slots->lock, NULL);
}

void sti_queue_slots_end(struct sti_queue_slots *queue_slots)
{
    pthread_mutex_destroy(&queue_slots->lock);
}

/* --- Lines, under the lock ---------------------------------------------------------------------------------------- */

static struct sti_slot_waiters **find(struct sti_queue_slots *queue_slots, const stint_options *options)
{
    uint64_t key = ((uint64_t)(uintptr_t)options->account + (uint64_t)options->priority) * UINT64_C(0x9e3779b97f4a7c15);
    struct sti_slot_waiters **link = &queue_slots->table[(key >> 32) % STI_QUEUE_SLOTS_TABLE];
    while (*link != NULL && ((*link)->account != options->account || (*link)->priority != options->priority))
        link = &(*link)->chain;
    return link;
}

/* Where it is the last. */
static void enter_ring(struct sti_slot_waiters **ring, struct sti_slot_waiters *line)
{
    struct sti_slot_waiters *first = *ring;
    if (first == NULL) {
        line->next = line->previous = line;
        *ring = line;
        return;
    }
    line->next = first;
    line->previous = first->previous;
    line->previous->next = line;
    first->previous = line;
}

static void leave_ring(struct sti_slot_waiters **ring, struct sti_slot_waiters *line)
{
    line->previous->next = line->next;
    line->next->previous = line->previous;
    if (*ring == line)
        *ring = line->next != line ? line->next : NULL;
}

static void move(struct sti_queue_slots *queue_slots, struct sti_slot_waiters *line, bool capped)
{
    leave_ring(line->capped ? &queue_slots->capped : &queue_slots->ring, line);
    enter_ring(capped ? &queue_slots->capped : &queue_slots->ring, line);
    line->capped = capped;
}

/* Of its account and priority. NULL: no memory. */
static struct sti_slot_waiters *line_for(struct sti_queue_slots *queue_slots, const sti_task *task)
{
    if (sti_admission_is_plain(task))
        return &queue_slots->plain;
    struct sti_slot_waiters **link = find(queue_slots, &task->options);
    if (*link != NULL)
        return *link;
    struct sti_slot_waiters *line = sti_process_malloc(sizeof *line);
    if (line == NULL)
        return NULL;
    *line = (struct sti_slot_waiters){ .account = task->options.account, .priority = task->options.priority };
    *link = line;
    enter_ring(&queue_slots->ring, line);
    return line;
}

static void end_line(struct sti_queue_slots *queue_slots, struct sti_slot_waiters *line)
{
    if (line == &queue_slots->plain)
        return;
    const stint_options key = { .size = sizeof key, .account = line->account, .priority = line->priority };
    *find(queue_slots, &key) = line->chain;
    leave_ring(line->capped ? &queue_slots->capped : &queue_slots->ring, line);
    sti_process_free(line);
}

/* False: no memory. */
static bool join_line(struct sti_queue_slots *queue_slots, struct sti_slot_waiter *waiter)
{
    struct sti_slot_waiters *line = line_for(queue_slots, waiter->task);
    if (line == NULL)
        return false;
    waiter->line = line;
    waiter->previous = line->newest;
    *(line->newest != NULL ? &line->newest->next : &line->oldest) = waiter;
    line->newest = waiter;
    atomic_fetch_add_explicit(&queue_slots->plain_line, line == &queue_slots->plain, memory_order_seq_cst);
    atomic_fetch_add_explicit(&queue_slots->line, 1, memory_order_seq_cst);
    return true;
}

static void leave_line(struct sti_queue_slots *queue_slots, const struct sti_slot_waiter *waiter)
{
    struct sti_slot_waiters *line = waiter->line;
    *(waiter->previous != NULL ? &waiter->previous->next : &line->oldest) = waiter->next;
    *(waiter->next != NULL ? &waiter->next->previous : &line->newest) = waiter->previous;
    atomic_fetch_sub_explicit(&queue_slots->plain_line, line == &queue_slots->plain, memory_order_relaxed);
    atomic_fetch_sub_explicit(&queue_slots->line, 1, memory_order_relaxed);
    if (line->oldest == NULL)
        end_line(queue_slots, line);
}

static void answer(struct sti_queue_slots *queue_slots, struct sti_slot_waiter *waiter, int result)
{
    leave_line(queue_slots, waiter);
    /* release: for what the answer says has been done. */
    atomic_store_explicit(&waiter->answer, result, memory_order_release);
    sti_event_signal(&waiter->answered);
}

/* --- Places, under the lock --------------------------------------------------------------------------------------- */

static int put(stint_pool *pool, struct sti_slot_waiter *waiter)
{
    *waiter->future = waiter->task; /* before the task can start */
    int error = sti_admission_put(pool, NULL, waiter->task);
    if (error != 0)
        *waiter->future = NULL;
    return error;
}

/* The waiter that has stood in line longest. 0: it has been answered; EAGAIN: there is no slot for it; EDQUOT: its
 * account has its maximum of waiting tasks. */
static int serve(stint_pool *pool, const struct sti_slot_waiters *line)
{
    struct sti_slot_waiter *waiter = line->oldest;
    int error = put(pool, waiter);
    if (error == EAGAIN || error == EDQUOT)
        return error;
    answer(&pool->queue_slots, waiter, error);
    if (error == 0)
        sti_park_notify(pool);
    return 0;
}

static void fill(stint_pool *pool)
{
    struct sti_queue_slots *queue_slots = &pool->queue_slots;
    while (queue_slots->plain.oldest != NULL && serve(pool, &queue_slots->plain) == 0)
        ;
    for (unsigned refusals = 0; queue_slots->ring != NULL && refusals < REFUSALS_MAX;) {
        struct sti_slot_waiters *line = queue_slots->ring;
        queue_slots->ring = line->next;
        int error = serve(pool, line);
        if (error == EDQUOT)
            move(queue_slots, line, true);
        else if (error == EAGAIN)
            refusals++;
    }
}

/* --- With their own locking --------------------------------------------------------------------------------------- */

void sti_queue_slots_fill(stint_pool *pool)
{
    sti_delays_fill(pool);
    sti_plain_mutex_lock(&pool->queue_slots.lock);
    fill(pool);
    sti_plain_mutex_unlock(&pool->queue_slots.lock);
}

void sti_queue_slots_fill_capped(stint_pool *pool)
{
    struct sti_queue_slots *queue_slots = &pool->queue_slots;
    sti_delays_fill_capped(pool);
    sti_plain_mutex_lock(&queue_slots->lock);
    while (queue_slots->capped != NULL)
        move(queue_slots, queue_slots->capped, false);
    fill(pool);
    sti_plain_mutex_unlock(&queue_slots->lock);
}

void sti_queue_slots_close(struct sti_queue_slots *queue_slots)
{
    sti_plain_mutex_lock(&queue_slots->lock);
    queue_slots->closed = true;
    while (queue_slots->plain.oldest != NULL)
        answer(queue_slots, queue_slots->plain.oldest, ESHUTDOWN);
    while (queue_slots->ring != NULL)
        answer(queue_slots, queue_slots->ring->oldest, ESHUTDOWN);
    while (queue_slots->capped != NULL)
        answer(queue_slots, queue_slots->capped->oldest, ESHUTDOWN);
    sti_plain_mutex_unlock(&queue_slots->lock);
}

static int stand_in_line(stint_pool *pool, struct sti_slot_waiter *waiter)
{
    struct sti_queue_slots *queue_slots = &pool->queue_slots;
    int result = ESHUTDOWN;
    sti_plain_mutex_lock(&queue_slots->lock);
    if (!queue_slots->closed)
        result = join_line(queue_slots, waiter) ? 0 : ENOMEM;
    if (result == 0)
        fill(pool);
    sti_plain_mutex_unlock(&queue_slots->lock);
    return result;
}

/* Also for a waiter that has been answered: the thread that did so may still be about to wake it. */
static int give_up(struct sti_queue_slots *queue_slots, struct sti_slot_waiter *waiter, int error)
{
    sti_plain_mutex_lock(&queue_slots->lock);
    int result = atomic_load_explicit(&waiter->answer, memory_order_relaxed);
    if (result == WAITING) {
        leave_line(queue_slots, waiter);
        result = error;
    }
    sti_plain_mutex_unlock(&queue_slots->lock);
    return result;
}

/* --- Waiting ------------------------------------------------------------------------------------------------------ */

static void ring(void *waiter)
{
    sti_event_signal(&((struct sti_slot_waiter *)waiter)->answered);
}

/* 0: answered; ETIMEDOUT; EINTR. */
static int sleep_until(struct sti_slot_waiter *waiter, const struct sti_waking *waking, uint64_t deadline_ns)
{
    for (bool in_time = true; in_time;) {
        uint32_t value = sti_event_value(&waiter->answered);
        if (atomic_load_explicit(&waiter->answer, memory_order_acquire) != WAITING)
            return 0;
        if (waking != NULL && sti_waking_has_come(waking))
            return EINTR;
        in_time = sti_event_wait(&waiter->answered, value, deadline_ns);
    }
    return ETIMEDOUT;
}

static int sleep_until_served(struct sti_slot_waiter *waiter, uint64_t deadline_ns, bool deaf)
{
    uint64_t soon = sti_deadline_after(SHORT_SLEEP_NS);
    if (deaf || deadline_ns <= soon)
        return sleep_until(waiter, NULL, deadline_ns);
    int error = sleep_until(waiter, NULL, soon);
    if (error != ETIMEDOUT)
        return error;
    struct sti_waking waking;
    sti_waking_begin(&waking, ring, waiter);
    error = sleep_until(waiter, &waking, deadline_ns);
    sti_waking_end(&waking);
    return error;
}

int sti_queue_slots_await(stint_pool *pool, sti_task *task, uint64_t deadline_ns, bool deaf, stint_future **future)
{
    struct sti_worker *worker = sti_worker_current();
    struct sti_slot_waiter waiter = { .task = task, .future = future };
    task->stood_in_line = true;
    atomic_init(&waiter.answer, WAITING);
    sti_event_init(&waiter.answered);
    int error = stand_in_line(pool, &waiter);
    if (error != 0)
        return error;
    if (worker != NULL)
        sti_substitute_fall_asleep(worker);
    error = sleep_until_served(&waiter, deadline_ns, deaf);
    if (worker != NULL)
        sti_substitute_awake(worker);
    return give_up(&pool->queue_slots, &waiter, error);
}
