/* SPDX-License-Identifier: MIT
 *
 * Submitters who wait for a place; see places.h. */
#include "places.h"

#include <errno.h>
#include <stddef.h>

#include "alloc/base/libc.h"
#include "alloc/base/process.h"
#include "alloc/interrupt/hook.h"
#include "executor/pool/pool_state.h"
#include "executor/task/submit.h"
#include "executor/worker/event.h"
#include "executor/worker/park.h"
#include "executor/worker/spare.h"
#include "executor/worker/worker.h"

#define WAITING (-1)

/* So many lines are told in vain that there is no place for them, for each place that is filled: it costs the same however
 * many wait. */
#define REFUSALS_MOST 8

#define SHORT_SLEEP_NS UINT64_C(10000000)

/* On the stack of the one who waits. */
struct sti_place_waiter {
    struct sti_place_waiter *next;
    struct sti_place_waiter *previous;
    struct sti_place_line *line;
    sti_task *task;
    stint_future **future;
    atomic_int answer; /* WAITING, 0 or an errno value */
    sti_event answered;
};

void sti_places_init(struct sti_places *places)
{
    atomic_init(&places->line, 0);
    atomic_init(&places->plain_line, 0);
    pthread_mutex_init(&places->lock, NULL);
}

void sti_places_end(struct sti_places *places)
{
    pthread_mutex_destroy(&places->lock);
}

/* --- Lines, under the lock ---------------------------------------------------------------------------------------- */

static struct sti_place_line **find(struct sti_places *places, const stint_options *options)
{
    uint64_t key = ((uint64_t)(uintptr_t)options->account + (uint64_t)options->priority) * UINT64_C(0x9e3779b97f4a7c15);
    struct sti_place_line **link = &places->table[(key >> 32) % STI_PLACES_TABLE];
    while (*link != NULL && ((*link)->account != options->account || (*link)->priority != options->priority))
        link = &(*link)->chain;
    return link;
}

/* Where it is the last. */
static void enter_ring(struct sti_place_line **ring, struct sti_place_line *line)
{
    struct sti_place_line *first = *ring;
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

static void leave_ring(struct sti_place_line **ring, struct sti_place_line *line)
{
    line->previous->next = line->next;
    line->next->previous = line->previous;
    if (*ring == line)
        *ring = line->next != line ? line->next : NULL;
}

static void move(struct sti_places *places, struct sti_place_line *line, bool capped)
{
    leave_ring(line->capped ? &places->capped : &places->ring, line);
    enter_ring(capped ? &places->capped : &places->ring, line);
    line->capped = capped;
}

/* Of its account and priority. NULL: no memory. */
static struct sti_place_line *line_for(struct sti_places *places, const sti_task *task)
{
    if (sti_admission_is_plain(task))
        return &places->plain;
    struct sti_place_line **link = find(places, &task->options);
    if (*link != NULL)
        return *link;
    struct sti_place_line *line = sti_process_malloc(sizeof *line);
    if (line == NULL)
        return NULL;
    *line = (struct sti_place_line){ .account = task->options.account, .priority = task->options.priority };
    *link = line;
    enter_ring(&places->ring, line);
    return line;
}

static void end_line(struct sti_places *places, struct sti_place_line *line)
{
    if (line == &places->plain)
        return;
    const stint_options key = { .account = line->account, .priority = line->priority };
    *find(places, &key) = line->chain;
    leave_ring(line->capped ? &places->capped : &places->ring, line);
    sti_process_free(line);
}

/* False: no memory. */
static bool join_line(struct sti_places *places, struct sti_place_waiter *waiter)
{
    struct sti_place_line *line = line_for(places, waiter->task);
    if (line == NULL)
        return false;
    waiter->line = line;
    waiter->previous = line->newest;
    *(line->newest != NULL ? &line->newest->next : &line->oldest) = waiter;
    line->newest = waiter;
    atomic_fetch_add_explicit(&places->plain_line, line == &places->plain, memory_order_seq_cst);
    atomic_fetch_add_explicit(&places->line, 1, memory_order_seq_cst);
    return true;
}

static void leave_line(struct sti_places *places, const struct sti_place_waiter *waiter)
{
    struct sti_place_line *line = waiter->line;
    *(waiter->previous != NULL ? &waiter->previous->next : &line->oldest) = waiter->next;
    *(waiter->next != NULL ? &waiter->next->previous : &line->newest) = waiter->previous;
    atomic_fetch_sub_explicit(&places->plain_line, line == &places->plain, memory_order_relaxed);
    atomic_fetch_sub_explicit(&places->line, 1, memory_order_relaxed);
    if (line->oldest == NULL)
        end_line(places, line);
}

static void answer(struct sti_places *places, struct sti_place_waiter *waiter, int result)
{
    leave_line(places, waiter);
    /* release: for what the answer says has been done. */
    atomic_store_explicit(&waiter->answer, result, memory_order_release);
    sti_event_signal(&waiter->answered);
}

/* --- Places, under the lock --------------------------------------------------------------------------------------- */

static int put(stint_pool *pool, struct sti_place_waiter *waiter)
{
    *waiter->future = waiter->task; /* before the task can start */
    int error = sti_admission_put(pool, NULL, waiter->task);
    if (error != 0)
        *waiter->future = NULL;
    return error;
}

/* The one who has waited longest in the line. 0: he has been answered; EAGAIN: there is no place for him; EDQUOT: his
 * account has its maximum of waiting tasks. */
static int serve(stint_pool *pool, const struct sti_place_line *line)
{
    struct sti_place_waiter *waiter = line->oldest;
    int error = put(pool, waiter);
    if (error == EAGAIN || error == EDQUOT)
        return error;
    answer(&pool->places, waiter, error);
    if (error == 0)
        sti_park_notify(pool);
    return 0;
}

static void fill(stint_pool *pool)
{
    struct sti_places *places = &pool->places;
    while (places->plain.oldest != NULL && serve(pool, &places->plain) == 0)
        ;
    for (unsigned refusals = 0; places->ring != NULL && refusals < REFUSALS_MOST;) {
        struct sti_place_line *line = places->ring;
        places->ring = line->next;
        int error = serve(pool, line);
        if (error == EDQUOT)
            move(places, line, true);
        else if (error == EAGAIN)
            refusals++;
    }
}

/* --- With their own locking --------------------------------------------------------------------------------------- */

void sti_places_fill(stint_pool *pool)
{
    sti_delays_fill(pool);
    sti_plain_mutex_lock(&pool->places.lock);
    fill(pool);
    sti_plain_mutex_unlock(&pool->places.lock);
}

void sti_places_fill_capped(stint_pool *pool)
{
    struct sti_places *places = &pool->places;
    sti_delays_fill_capped(pool);
    sti_plain_mutex_lock(&places->lock);
    while (places->capped != NULL)
        move(places, places->capped, false);
    fill(pool);
    sti_plain_mutex_unlock(&places->lock);
}

void sti_places_close(struct sti_places *places)
{
    sti_plain_mutex_lock(&places->lock);
    places->closed = true;
    while (places->plain.oldest != NULL)
        answer(places, places->plain.oldest, ESHUTDOWN);
    while (places->ring != NULL)
        answer(places, places->ring->oldest, ESHUTDOWN);
    while (places->capped != NULL)
        answer(places, places->capped->oldest, ESHUTDOWN);
    sti_plain_mutex_unlock(&places->lock);
}

static int stand_in_line(stint_pool *pool, struct sti_place_waiter *waiter)
{
    struct sti_places *places = &pool->places;
    int result = ESHUTDOWN;
    sti_plain_mutex_lock(&places->lock);
    if (!places->closed)
        result = join_line(places, waiter) ? 0 : ENOMEM;
    if (result == 0)
        fill(pool);
    sti_plain_mutex_unlock(&places->lock);
    return result;
}

/* Also for who has been answered: the one who did that may still be about to wake him. */
static int give_up(struct sti_places *places, struct sti_place_waiter *waiter, int error)
{
    sti_plain_mutex_lock(&places->lock);
    int result = atomic_load_explicit(&waiter->answer, memory_order_relaxed);
    if (result == WAITING) {
        leave_line(places, waiter);
        result = error;
    }
    sti_plain_mutex_unlock(&places->lock);
    return result;
}

/* --- Waiting ------------------------------------------------------------------------------------------------------ */

static void ring(void *waiter)
{
    sti_event_signal(&((struct sti_place_waiter *)waiter)->answered);
}

/* 0: answered; ETIMEDOUT; EINTR. */
static int sleep_until(struct sti_place_waiter *waiter, const struct sti_waking *waking, uint64_t deadline_ns)
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

static int sleep_until_served(struct sti_place_waiter *waiter, uint64_t deadline_ns, bool deaf)
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

int sti_places_await(stint_pool *pool, sti_task *task, uint64_t deadline_ns, bool deaf, stint_future **future)
{
    struct sti_worker *worker = sti_worker_current();
    struct sti_place_waiter waiter = { .task = task, .future = future };
    task->stood_in_line = true;
    atomic_init(&waiter.answer, WAITING);
    sti_event_init(&waiter.answered);
    int error = stand_in_line(pool, &waiter);
    if (error != 0)
        return error;
    if (worker != NULL)
        sti_spare_fall_asleep(worker, NULL);
    error = sleep_until_served(&waiter, deadline_ns, deaf);
    if (worker != NULL)
        sti_spare_awake(worker, NULL);
    return give_up(&pool->places, &waiter, error);
}
