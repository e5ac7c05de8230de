/* SPDX-License-Identifier: MIT
 *
 * Tasks that wait for a time: once, or again and again. Any thread. */
#include <errno.h>
#include <stint/account.h>
#include <stint/later.h>
#include <stint/token.h>

#include "alloc/meter/allocate.h"
#include "alloc/platform/clock.h"
#include "alloc/platform/module.h"
#include "alloc/platform/process.h"
#include "alloc/scope/context.h"
#include "alloc/scope/scope.h"
#include "completions.h"
#include "compound.h"
#include "delays.h"
#include "task.h"

/* --- stint_submit_every: a series of delayed tasks. Any thread.
 *
 * The future of the series is a compound of nothing, which the series resolves. Each turn is a task that is delayed
 * until its time; a record of the series follows it, ends the series or makes the next turn. Under the lock: the
 * present turn, and whether the series has been cancelled. The next turn is made, and delayed, under it too: so a
 * cancelling thread either finds a turn that it can cancel, or comes first, and no other turn is made.
 *
 * References of the compound: the caller's, and that of the series until it has ended. */

/* In the block of its future, behind it. */
struct series {
    struct sti_compound *compound;
    struct sti_continuation turn_end; /* of the present turn */
    stint_pool *pool;
    stint_fn *fn;
    void *arg;
    stint_options options; /* of each turn; what they name is retained */
    uint64_t start_ns;
    uint64_t period_ns;
    pthread_mutex_t lock;
    sti_task *turn; /* retained; NULL: the series has ended */
    uint64_t due_ns;
    bool cancelled;
    stint_usage usage;
};

#define SERIES_SIZE (sizeof(struct sti_compound) + sizeof(struct series))

static struct series *series_of(struct sti_compound *compound)
{
    return (struct series *)(void *)compound->members;
}

static void series_let_go(const struct series *series)
{
    stint_token_release(series->options.token);
    stint_account_release(series->options.account);
    stint_context_release(series->options.context);
}

/* The first multiple of the period that comes after the last one and has not passed. */
static uint64_t next_due(const struct series *series)
{
    uint64_t next = sti_saturating_add(series->due_ns, series->period_ns);
    uint64_t now = sti_clock_now();
    if (next >= now)
        return next;
    uint64_t left_out = (now - next + series->period_ns - 1) / series->period_ns;
    return sti_saturating_add(next, left_out * series->period_ns);
}

/* Under the lock, but for the first turn. The caller follows the turn once it has given up the lock. */
static int begin_turn(struct series *series, uint64_t due_ns)
{
    struct sti_delayed *delayed;
    int error = sti_delayed_create(series->pool, sizeof *delayed, series->fn, series->arg, &series->options, &delayed);
    if (error != 0)
        return error;
    delayed->start_ns = due_ns; /* the reference of its future is the series' */
    error = sti_delayed_begin(delayed);
    if (error != 0)
        return error;
    series->due_ns = due_ns;
    series->turn = &delayed->task;
    series->turn_end.task = &delayed->task;
    return 0;
}

/* Its turn has ended like this. Of a payload and a report, which nobody else has seen, the future is
 * the owner now. */
static void end_series(struct series *series, stint_outcome outcome, sti_task *turn)
{
    turn->outcome.payload = NULL;
    series->compound->future.report = turn->report;
    turn->report = NULL;
    outcome.usage = series->usage;
    series->compound->future.outcome = outcome;
    series->compound->owns_payload = outcome.payload != NULL;
    series_let_go(series);
    sti_task_resolve(&series->compound->future);
}

static stint_outcome outcome_of_error(int error)
{
    stint_outcome outcome = sti_outcome_unstarted(error == ENOMEM ? STINT_REASON_FAILED : STINT_REASON_SHUTDOWN, 0);
    if (error == ENOMEM)
        outcome.error = ENOMEM;
    return outcome;
}

/* Under the lock. True: there is another one. */
static bool series_go_on(struct series *series, stint_outcome *outcome)
{
    int error = 0;
    if (outcome->status == STINT_OK && series->cancelled) {
        *outcome = sti_outcome_unstarted(STINT_REASON_TOKEN, 0);
    } else if (outcome->status == STINT_OK && outcome->value == NULL) {
        error = begin_turn(series, next_due(series));
        if (error == 0)
            return true;
        *outcome = outcome_of_error(error);
    }
    series->turn = NULL;
    return false;
}

/* The thread may be in the midst of a task, of which the next turn is no part. */
static void series_turn_has_ended(struct sti_continuation *continuation)
{
    struct series *series = (struct series *)((char *)continuation - offsetof(struct series, turn_end));
    sti_task *turn = continuation->task;
    stint_outcome outcome = turn->outcome;
    struct sti_suspended_scope suspended;
    sti_scope_suspend(&suspended);
    sti_real_mutex_lock(&series->lock);
    sti_compound_add_usage(&series->usage, &outcome.usage);
    bool goes_on = series_go_on(series, &outcome);
    sti_real_mutex_unlock(&series->lock);
    if (goes_on)
        sti_continuation_add(&series->turn_end);
    else
        end_series(series, outcome, turn);
    sti_scope_resume(&suspended);
    sti_task_release(turn);
    if (!goes_on)
        sti_task_release(&series->compound->future);
}

static void cancel_series(struct sti_queued_turn *cancelling)
{
    struct series *series = series_of(sti_compound_of(cancelling->task));
    sti_real_mutex_lock(&series->lock);
    series->cancelled = true;
    sti_task *turn = series->turn;
    if (turn != NULL)
        sti_task_retain(turn);
    sti_real_mutex_unlock(&series->lock);
    if (turn == NULL)
        return;
    stint_future_cancel(turn);
    sti_task_release(turn);
}

/* The present turn. */
static sti_task **series_find_awaited(struct sti_compound *compound, size_t *count)
{
    struct series *series = series_of(compound);
    sti_task **awaited = sti_process_malloc(sizeof *awaited);
    if (awaited == NULL)
        return NULL;
    sti_real_mutex_lock(&series->lock);
    *count = series->turn != NULL;
    if (series->turn != NULL) {
        sti_task_retain(series->turn);
        awaited[0] = series->turn;
    }
    sti_real_mutex_unlock(&series->lock);
    return awaited;
}

/* --- Making ------------------------------------------------------------------------------------------------------- */

static struct series *make_series(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options)
{
    static const stint_options no_limits = STINT_OPTIONS_INIT;
    struct sti_compound *compound = sti_compound_create(false, 0, SERIES_SIZE);
    if (compound == NULL)
        return NULL;
    struct series *series = series_of(compound);
    series->compound = compound;
    compound->cancel = cancel_series;
    compound->awaited = series_find_awaited;
    sti_task_retain(&compound->future);
    series->turn_end.run = series_turn_has_ended;
    series->pool = pool;
    series->fn = fn;
    series->arg = arg;
    series->options = options != NULL ? *options : no_limits;
    if (series->options.context == NULL)
        series->options.context = stint_context_current();
    pthread_mutex_init(&series->lock, NULL);
    compound->future.options.completions = series->options.completions;
    compound->future.options.data = series->options.data;
    series->options.completions = NULL;
    return series;
}

static int series_begin(struct series *series)
{
    sti_task *future = &series->compound->future;
    int error = sti_completions_expect_compound(future);
    if (error != 0)
        return error;
    error = begin_turn(series, series->start_ns);
    if (error != 0 && future->options.completions != NULL)
        sti_completions_expect_no_more(future);
    return error;
}

int stint_submit_every(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options, uint64_t start_ns,
                       uint64_t period_ns, stint_future **future)
{
    stint_options room;
    if (future != NULL)
        *future = NULL;
    if (sti_process_is_partial())
        return ENOTSUP;
    int error = future != NULL && start_ns != 0 && period_ns != 0 ? sti_options_take(&options, &room) : EINVAL;
    if (error != 0)
        return error;
    struct series *series = sti_record_charge(SERIES_SIZE, STI_CALLER()) ? make_series(pool, fn, arg, options) : NULL;
    if (series == NULL)
        return ENOMEM;
    series->start_ns = start_ns;
    series->period_ns = period_ns;
    *future = &series->compound->future;
    stint_token_retain(series->options.token);
    stint_account_retain(series->options.account);
    stint_context_retain(series->options.context);
    error = series_begin(series);
    if (error == 0) {
        sti_continuation_add(&series->turn_end);
        return 0;
    }
    *future = NULL;
    series_let_go(series);
    sti_process_free(series->compound);
    return error;
}

/* --- stint_submit_at: a task that waits for its time. Any thread. --- */

int stint_submit_at(stint_pool *pool, stint_fn *fn, void *arg, const stint_options *options, uint64_t start_ns,
                    stint_future **future)
{
    struct sti_delayed *delayed;
    if (future != NULL)
        *future = NULL;
    if (sti_process_is_partial())
        return ENOTSUP;
    if (future == NULL || start_ns == 0)
        return EINVAL;
    if (!sti_record_charge(sizeof *delayed, STI_CALLER()))
        return ENOMEM;
    int error = sti_delayed_create(pool, sizeof *delayed, fn, arg, options, &delayed);
    if (error != 0)
        return error;
    delayed->start_ns = start_ns;
    *future = &delayed->task; /* before it can start */
    error = sti_delayed_begin(delayed);
    if (error != 0)
        *future = NULL;
    return error;
}
