/* SPDX-License-Identifier: MIT
 *
 * Submitters who wait for a place; see places.h. */
#include "places.h"

#include <errno.h>
#include <stddef.h>

#include "admission.h"
#include "alloc/plain_lock.h"
#include "event.h"
#include "park.h"
#include "pool_state.h"

#define WAITING (-1)

/* On the stack of the one who waits. */
struct sti_place_waiter {
    struct sti_place_waiter *next;
    sti_task *task;
    stint_future **future;
    bool plain;
    atomic_int answer; /* WAITING, 0 or an errno value */
    sti_event answered;
};

void sti_places_init(struct sti_places *places)
{
    atomic_init(&places->line, 0);
    atomic_init(&places->plain_line, 0);
    pthread_mutex_init(&places->lock, NULL);
    places->first = NULL;
    places->closed = false;
}

void sti_places_end(struct sti_places *places)
{
    pthread_mutex_destroy(&places->lock);
}

/* --- Under the lock ----------------------------------------------------------------------------------------------- */

static void join_line(struct sti_places *places, struct sti_place_waiter *waiter)
{
    struct sti_place_waiter **link = &places->first;
    while (*link != NULL)
        link = &(*link)->next;
    *link = waiter;
    atomic_fetch_add_explicit(&places->plain_line, waiter->plain, memory_order_seq_cst);
    atomic_fetch_add_explicit(&places->line, 1, memory_order_seq_cst);
}

static void leave_line(struct sti_places *places, const struct sti_place_waiter *waiter)
{
    struct sti_place_waiter **link = &places->first;
    while (*link != waiter)
        link = &(*link)->next;
    *link = waiter->next;
    atomic_fetch_sub_explicit(&places->plain_line, waiter->plain, memory_order_relaxed);
    atomic_fetch_sub_explicit(&places->line, 1, memory_order_relaxed);
}

static void answer(struct sti_places *places, struct sti_place_waiter *waiter, int result)
{
    leave_line(places, waiter);
    /* release: for what the answer says has been done. */
    atomic_store_explicit(&waiter->answer, result, memory_order_release);
    sti_event_signal(&waiter->answered);
}

static int put(stint_pool *pool, struct sti_place_waiter *waiter)
{
    *waiter->future = waiter->task; /* before the task can start */
    int error = sti_admission_put(pool, NULL, waiter->task);
    if (error != 0)
        *waiter->future = NULL;
    return error;
}

static void fill(stint_pool *pool)
{
    bool plain_full = false;
    struct sti_place_waiter *following;
    for (struct sti_place_waiter *waiter = pool->places.first; waiter != NULL; waiter = following) {
        following = waiter->next;
        if (waiter->plain && plain_full)
            continue;
        int error = put(pool, waiter);
        if (error != EAGAIN && error != EDQUOT)
            answer(&pool->places, waiter, error);
        if (error == 0)
            sti_park_notify(pool);
        else if (error == EAGAIN)
            plain_full = plain_full || waiter->plain;
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

void sti_places_close(struct sti_places *places)
{
    sti_plain_mutex_lock(&places->lock);
    places->closed = true;
    while (places->first != NULL)
        answer(places, places->first, ESHUTDOWN);
    sti_plain_mutex_unlock(&places->lock);
}

static int stand_in_line(stint_pool *pool, struct sti_place_waiter *waiter)
{
    struct sti_places *places = &pool->places;
    int result = ESHUTDOWN;
    sti_plain_mutex_lock(&places->lock);
    if (!places->closed) {
        join_line(places, waiter);
        fill(pool);
        result = 0;
    }
    sti_plain_mutex_unlock(&places->lock);
    return result;
}

/* Also for who has been answered: the one who did that may still be about to wake him. */
static int give_up(struct sti_places *places, struct sti_place_waiter *waiter)
{
    sti_plain_mutex_lock(&places->lock);
    int result = atomic_load_explicit(&waiter->answer, memory_order_relaxed);
    if (result == WAITING) {
        leave_line(places, waiter);
        result = ETIMEDOUT;
    }
    sti_plain_mutex_unlock(&places->lock);
    return result;
}

int sti_places_await(stint_pool *pool, sti_task *task, uint64_t deadline_ns, stint_future **future)
{
    struct sti_place_waiter waiter = { .task = task, .future = future, .plain = sti_admission_is_plain(task) };
    atomic_init(&waiter.answer, WAITING);
    sti_event_init(&waiter.answered);
    int error = stand_in_line(pool, &waiter);
    if (error != 0)
        return error;
    for (bool in_time = true; in_time;) {
        uint32_t value = sti_event_value(&waiter.answered);
        if (atomic_load_explicit(&waiter.answer, memory_order_acquire) != WAITING)
            break;
        in_time = sti_event_wait(&waiter.answered, value, deadline_ns);
    }
    return give_up(&pool->places, &waiter);
}
