/* SPDX-License-Identifier: MIT
 *
 * Tasks that wait for something else than a worker; see delays.h. */
#include "delays.h"

#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>

#include "alloc/base/module.h"
#include "alloc/interrupt/watch.h"
#include "alloc/scope/scope.h"
#include "completions.h"
#include "due.h"
#include "executor/worker/worker.h"
#include "submit.h"

static struct sti_delayed *delayed_of(struct sti_timer *alarm)
{
    return (struct sti_delayed *)((char *)alarm - offsetof(struct sti_delayed, alarm));
}

static bool leave_delay(sti_task *task, int state)
{
    return sti_due_change(task, STI_TASK_DELAYED, state);
}

/* --- The list ----------------------------------------------------------------------------------------------------- */

static void take_off(struct sti_delays *delays, struct sti_delayed *delayed)
{
    if (delayed->link_due != NULL) {
        sti_due_leave(delayed);
        sti_due_count(delayed, -1);
    }
    sti_timers_remove(&delays->timers, &delayed->alarm);
    *delayed->link = delayed->next;
    if (delayed->next != NULL)
        delayed->next->link = delayed->link;
}

/* The last thing that is done with the pool. */
static void leave_list(struct sti_delayed *delayed)
{
    struct sti_delays *delays = &delayed->home->delays;
    sti_plain_mutex_lock(&delays->lock);
    take_off(delays, delayed);
    sti_plain_mutex_unlock(&delays->lock);
}

/* --- Ending ------------------------------------------------------------------------------------------------------- */

/* The caller has claimed it, or taken it out of the line for a slot. It is to resolve; the pool may be gone. */
static void leave_unstarted(struct sti_delayed *delayed, stint_reason reason, int error)
{
    sti_task *task = &delayed->task;
    stint_pool *pool = delayed->home;
    if (delayed->forget != NULL)
        delayed->forget(delayed);
    sti_outcomes_count(sti_outcomes_of_all(pool), reason);
    sti_task_count_labelled(task, reason);
    task->counted = true;
    sti_farewell_note(pool, task);
    leave_list(delayed);
    task->outcome = sti_outcome_unstarted(reason, 0);
    if (error != 0)
        task->outcome.error = error;
}

static void end_claimed(struct sti_delayed *delayed, stint_reason reason)
{
    leave_unstarted(delayed, reason, 0);
    sti_task_resolve(&delayed->task);
    sti_task_release(&delayed->task);
}

bool sti_delayed_end(sti_task *task, stint_reason reason)
{
    int ending = STI_TASK_ENDING + (int)reason;
    if (!leave_delay(task, ending) && !sti_due_change(task, STI_TASK_DUE, ending))
        return false;
    end_claimed((struct sti_delayed *)task, reason);
    return true;
}

/* --- Starting ----------------------------------------------------------------------------------------------------- */

/* A plain task that finds no slot has been offered all the same: if somebody has claimed it, it needs none any
 * more. */
static bool take_offer_back(stint_pool *pool, sti_task *task)
{
    int queued = STI_TASK_QUEUED;
    if (task->fair_queue != NULL || atomic_compare_exchange_strong_explicit(&task->state, &queued, STI_TASK_NEW,
                                                                            memory_order_relaxed, memory_order_relaxed))
        return true;
    sti_farewell_drop(pool, task, sti_outcomes_of_all(pool)); /* as whoever takes out its entry would */
    return false;
}

/* There is no slot for it now. */
static bool is_full(int error)
{
    return error == EAGAIN || error == EDQUOT;
}

static int put(struct sti_delayed *delayed)
{
    stint_pool *pool = delayed->home;
    int error = sti_admission_put_prepared(pool, sti_worker_of(pool), &delayed->task);
    return error == EAGAIN && !take_offer_back(pool, &delayed->task) ? 0 : error;
}

static void resolve(struct sti_line_turn *turn)
{
    sti_task_resolve(turn->task);
}

/* In line: a thread that fills slots may hold the list of the pools (sti_pools_fill), which what follows may need. */
static void resolve_in_line(sti_task *task)
{
    sti_continuation_now(task, &task->turn, resolve);
}

/* It is where workers look, or was. The caller has a reference of its own. */
static void finish_start(struct sti_delayed *delayed)
{
    sti_task *task = &delayed->task;
    stint_pool *pool = delayed->home;
    sti_park_notify(pool);
    sti_substitute_rescue(pool); /* those who sleep may all wait for this one */
    /* As in a submission: the workers may have left without seeing it. Its entry stays behind for whoever empties the
     * queue, and notes it. */
    bool taken_back = !sti_pool_is_open(pool) && sti_worker_of(pool) == NULL && task->fair_queue == NULL &&
                      sti_task_claim_to_end(task, STINT_REASON_SHUTDOWN);
    leave_list(delayed);
    if (taken_back) {
        task->outcome = sti_outcome_unstarted(STINT_REASON_SHUTDOWN, sti_clock_now() - task->submitted_ns);
        resolve_in_line(task);
    }
    sti_task_release(task);
}

/* One that found no slot, retained. False: there never will be any. */
static bool stand_in_line_again(struct sti_delayed *refused, bool capped)
{
    struct sti_delays *delays = &refused->home->delays;
    refused->task.stood_in_line = true;
    sti_plain_mutex_lock(&delays->lock);
    bool closed = delays->closed;
    if (!closed)
        sti_due_stand(refused, capped ? delays->lines[STI_DUE_CAPPED].end : &sti_due_line_of(refused)->first);
    sti_plain_mutex_unlock(&delays->lock);
    if (!closed)
        sti_task_release(&refused->task);
    return !closed;
}

/* Put the first in line, which is retained; those whose accounts have their maximum of waiting tasks stand aside.
 * EAGAIN: there is none, or no slot for it; ESHUTDOWN, ENOMEM: it has left the line. By one thread at a time, which
 * does not hold the lock while it puts: what is put may have to start the watch, whose thread takes it.
 *
 * The first is counted all the time (due.h): a thread that makes a slot after this has found none waits for the lock of
 * those that fill, and finds it in line again. */
static int serve_line(struct sti_delays *delays, const struct sti_due_line *line, struct sti_delayed **served)
{
    const stint_account *full = NULL;
    for (;;) {
        sti_plain_mutex_lock(&delays->lock);
        struct sti_delayed *first = sti_due_take_first(line);
        bool closed = delays->closed;
        sti_plain_mutex_unlock(&delays->lock);
        if (first == NULL)
            return EAGAIN;
        sti_task_retain(&first->task);
        *served = first;
        stint_account *account = first->task.options.account;
        int error = closed ? ESHUTDOWN : full != NULL && account == full ? EDQUOT : put(first);
        if (is_full(error) && !stand_in_line_again(first, error == EDQUOT))
            error = ESHUTDOWN;
        if (!is_full(error))
            sti_due_count(first, -1);
        if (error != EDQUOT)
            return error;
        full = account;
    }
}

static int serve(struct sti_delays *delays, struct sti_delayed **served)
{
    sti_plain_mutex_lock(&delays->filling);
    int error = serve_line(delays, &delays->lines[STI_DUE_PLAIN], served);
    if (error == EAGAIN)
        error = serve_line(delays, &delays->lines[STI_DUE_OTHERS], served);
    sti_plain_mutex_unlock(&delays->filling);
    return error;
}

void sti_delays_fill(stint_pool *pool)
{
    struct sti_delayed *served;
    int error;
    while ((error = serve(&pool->delays, &served)) != EAGAIN) {
        if (error == 0) {
            finish_start(served);
        } else {
            leave_unstarted(served, error == ENOMEM ? STINT_REASON_FAILED : STINT_REASON_SHUTDOWN,
                            error == ENOMEM ? ENOMEM : 0);
            resolve_in_line(&served->task);
            sti_task_release(&served->task);
            sti_task_release(&served->task); /* the entry's */
        }
    }
}

/* By who fills slots, after whom nobody is refused one that this does not see. */
void sti_delays_fill_capped(stint_pool *pool)
{
    struct sti_delays *delays = &pool->delays;
    sti_plain_mutex_lock(&delays->filling);
    sti_plain_mutex_lock(&delays->lock);
    sti_due_ask_capped(delays);
    sti_plain_mutex_unlock(&delays->lock);
    sti_plain_mutex_unlock(&delays->filling);
    sti_delays_fill(pool);
}

/* One after the other, also where there are slots: so none overtakes another. */
static void start_claimed(struct sti_delayed *delayed)
{
    stint_pool *pool = delayed->home;
    if (delayed->start_ns == 0)
        delayed->task.submitted_ns = sti_clock_now();
    else if (delayed->start_ns > delayed->task.submitted_ns)
        delayed->task.submitted_ns = delayed->start_ns;
    sti_plain_mutex_lock(&pool->delays.lock);
    bool closed = pool->delays.closed;
    if (!closed) {
        delayed->task.stood_in_line = sti_due_line_of(delayed)->first != NULL;
        sti_due_stand(delayed, sti_due_line_of(delayed)->end);
        sti_due_count(delayed, 1);
        pool->delays.starting++;
    }
    sti_plain_mutex_unlock(&pool->delays.lock);
    if (closed) {
        end_claimed(delayed, STINT_REASON_SHUTDOWN);
        return;
    }
    sti_task_retain(&delayed->task);
    sti_delays_fill(pool);
    if (sti_task_is_due(&delayed->task))
        sti_substitute_rescue(pool); /* those who sleep may all wait for it, and nobody make a slot */
    sti_task_release(&delayed->task);
    sti_plain_mutex_lock(&pool->delays.lock);
    pool->delays.starting--;
    sti_plain_mutex_unlock(&pool->delays.lock);
}

void sti_delayed_start(struct sti_delayed *delayed)
{
    if (leave_delay(&delayed->task, STI_TASK_NEW))
        start_claimed(delayed);
}

/* --- Time --------------------------------------------------------------------------------------------------------- */

/* What follows those that end instead runs elsewhere: this thread has other times to keep. */
static void start_all(void *claimed)
{
    struct sti_expired *expired = &((struct sti_delayed *)claimed)->home->monitor.expired;
    sti_continuation_hold();
    for (struct sti_delayed *delayed = claimed; delayed != NULL;) {
        struct sti_delayed *next = delayed->next_due;
        start_claimed(delayed);
        delayed = next;
    }
    sti_expired_hand_over(expired, sti_continuation_let_go());
}

/* The oldest first; what expired in one tick comes in any order. */
static struct sti_delayed *claim_expired(struct sti_timer *expired)
{
    struct sti_delayed *claimed = NULL;
    while (expired != NULL) {
        struct sti_delayed *delayed = delayed_of(expired);
        expired = expired->next;
        if (!leave_delay(&delayed->task, STI_TASK_NEW))
            continue;
        struct sti_delayed **link = &claimed;
        while (*link != NULL && (*link)->start_ns <= delayed->start_ns)
            link = &(*link)->next_due;
        delayed->next_due = *link;
        *link = delayed;
    }
    return claimed;
}

static uint64_t look_at_timers(struct sti_watch *watch, uint64_t now)
{
    struct sti_delays *delays = (struct sti_delays *)((char *)watch - offsetof(struct sti_delays, watch));
    sti_plain_mutex_lock(&delays->lock);
    struct sti_delayed *claimed = claim_expired(sti_timers_expire(&delays->timers, now));
    uint64_t next = sti_timers_next(&delays->timers);
    sti_plain_mutex_unlock(&delays->lock);
    if (claimed == NULL)
        return next != STI_TIMERS_NONE ? next : STI_WATCH_NEVER;
    sti_watch_call(watch, start_all, claimed);
    return STI_WATCH_AGAIN;
}

/* 0; EAGAIN: no thread. */
static int have_watch(struct sti_delays *delays)
{
    bool watched = false;
    if (atomic_load_explicit(&delays->watched, memory_order_relaxed) ||
        !atomic_compare_exchange_strong_explicit(&delays->watched, &watched, true, memory_order_relaxed,
                                                 memory_order_relaxed))
        return 0;
    int error = sti_watch_begin(&delays->watch, 0);
    if (error != 0)
        atomic_store_explicit(&delays->watched, false, memory_order_relaxed);
    return error;
}

/* --- Making and ending -------------------------------------------------------------------------------------------- */

int sti_delayed_create(stint_pool *pool, size_t size, stint_fn *fn, void *arg, const stint_options *options,
                       struct sti_delayed **delayed)
{
    stint_options room;
    int error = pool != NULL && fn != NULL ? sti_options_take(&options, &room) : EINVAL;
    if (error != 0)
        return error;
    if (!sti_pool_is_open(pool))
        return ESHUTDOWN;
    sti_task *task = sti_task_create_sized(size, pool, fn, arg, options);
    if (task == NULL)
        return ENOMEM;
    memset(task + 1, 0, size - sizeof *task);
    sti_admission_prepare(pool, task);
    if (task->options.completions != NULL && sti_completions_expect(task) != 0) {
        task->options.completions = NULL;
        sti_task_discard(task);
        return ENOMEM;
    }
    *delayed = (struct sti_delayed *)task;
    (*delayed)->home = pool;
    return 0;
}

int sti_delayed_begin(struct sti_delayed *delayed)
{
    struct sti_delays *delays = &delayed->home->delays;
    uint64_t look = STI_TIMERS_NONE;
    int error = delayed->start_ns != 0 ? have_watch(delays) : 0;
    if (error == 0) {
        sti_plain_mutex_lock(&delays->lock);
        error = delays->closed ? ESHUTDOWN : 0;
        if (error == 0) {
            delayed->next = delays->all;
            delayed->link = &delays->all;
            if (delayed->next != NULL)
                delayed->next->link = &delayed->next;
            delays->all = delayed;
            atomic_store_explicit(&delayed->task.state, STI_TASK_DELAYED, memory_order_release);
            if (delayed->start_ns != 0)
                look = sti_timers_add(&delays->timers, &delayed->alarm, delayed->start_ns);
        }
        sti_plain_mutex_unlock(&delays->lock);
    }
    if (error != 0)
        sti_task_discard(&delayed->task);
    else if (look != STI_TIMERS_NONE)
        sti_watch_hasten(look);
    return error;
}

void sti_delays_init(struct sti_delays *delays)
{
    delays->watch = (struct sti_watch){ .look = look_at_timers, .only_time = true };
    atomic_init(&delays->watched, false);
    pthread_mutex_init(&delays->lock, NULL);
    pthread_mutex_init(&delays->filling, NULL);
    delays->closed = false;
    delays->starting = 0;
    delays->all = NULL;
    for (int i = 0; i < STI_DUE_LINES; i++)
        delays->lines[i] = (struct sti_due_line){ .end = &delays->lines[i].first };
    sti_timers_init(&delays->timers, sti_clock_now());
}

/* Under the lock: those in line, and those that nobody starts meanwhile; chained. */
static struct sti_delayed *claim_all(struct sti_delays *delays)
{
    struct sti_delayed *claimed = NULL;
    struct sti_delayed *first;
    for (int i = 0; i < STI_DUE_LINES; i++) {
        while ((first = sti_due_take_first(&delays->lines[i])) != NULL) {
            sti_due_count(first, -1);
            first->next_due = claimed;
            claimed = first;
        }
    }
    for (struct sti_delayed *delayed = delays->all; delayed != NULL; delayed = delayed->next) {
        if (leave_delay(&delayed->task, STI_TASK_ENDING + (int)STINT_REASON_SHUTDOWN)) {
            delayed->next_due = claimed;
            claimed = delayed;
        }
    }
    return claimed;
}

void sti_delays_close(stint_pool *pool)
{
    struct sti_delays *delays = &pool->delays;
    sti_plain_mutex_lock(&delays->lock);
    delays->closed = true;
    struct sti_delayed *claimed = claim_all(delays);
    sti_plain_mutex_unlock(&delays->lock);
    while (claimed != NULL) {
        struct sti_delayed *next = claimed->next_due;
        end_claimed(claimed, STINT_REASON_SHUTDOWN);
        claimed = next;
    }
}

void sti_delays_await(struct sti_delays *delays)
{
    sti_watch_end(&delays->watch);
    sti_plain_mutex_lock(&delays->lock);
    while (delays->all != NULL || delays->starting > 0) {
        sti_plain_mutex_unlock(&delays->lock);
        sched_yield();
        sti_plain_mutex_lock(&delays->lock);
    }
    sti_plain_mutex_unlock(&delays->lock);
}

void sti_delays_end(struct sti_delays *delays)
{
    pthread_mutex_destroy(&delays->lock);
    pthread_mutex_destroy(&delays->filling);
}
