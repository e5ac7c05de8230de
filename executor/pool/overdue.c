/* SPDX-License-Identifier: MIT
 *
 * Tasks as seen from another thread: those that are overdue, and how long one waits beside an idle worker; see
 * overdue.h. */
#include "overdue.h"

#include <stddef.h>
#include <stint/account.h>
#include <stint/pool.h>

#include "alloc/interrupt/boundary.h"
#include "alloc/platform/clock.h"
#include "alloc/platform/process.h"
#include "executor/base/state.h"
#include "executor/task/continuation.h"
#include "executor/worker/substitute.h"
#include "executor/worker/worker.h"
#include "monitor.h"
#include "visit.h"

/* --- Overdue tasks. --- */

uint64_t sti_overdue_deadline(const sti_task *task, uint64_t started)
{
    stint_budget budget = sti_task_budget(task);
    if (started == 0)
        budget.run_ns = 0;
    return sti_limits_deadline(&budget, task->submitted_ns, started);
}

/* When the entry's task is overdue; UINT64_MAX: never. */
static uint64_t overdue_due(struct sti_overdue_entry *entry)
{
    entry->deadline = sti_overdue_deadline(entry->task, entry->started);
    return sti_limits_end(entry->deadline, entry->worker->pool->options.overdue_ns);
}

/* --- The report, on the pool's thread ----------------------------------------------------------------------------- */

struct report {
    struct sti_queued_turn turn;       /* of the task, but it does not wait for its end */
    const stint_pool_options *options; /* of the pool */
    stint_overdue_report report;
    struct sti_seen seen;
};

static void overdue_notify(struct sti_queued_turn *turn)
{
    struct report *report = (struct report *)turn;
    report->report.task = sti_seen_view(&report->seen);
    STI_BOUNDARY_CALLBACK(report->options->on_overdue, &report->report, report->options->overdue_arg, NULL);
    stint_account_release(report->seen.account);
    sti_process_free(report);
}

/* --- The watch ---------------------------------------------------------------------------------------------------- */

static struct report *make_report(const struct sti_overdue_entry *entry, uint64_t now)
{
    struct report *report = sti_process_malloc(sizeof *report);
    if (report == NULL)
        return NULL;
    report->options = &entry->worker->pool->options;
    report->report = (stint_overdue_report){ .late_ns = now - entry->deadline, .replaced = entry->replaced };
    sti_seen_take_down(&report->seen, entry->worker->pool, entry->task, entry->worker, entry->started, now);
    return report;
}

/* The entry is out, and the task still runs, as the worker has to have the lock to go on. The task may have more time
 * now. */
bool sti_overdue_deal_with(struct sti_timer *timer)
{
    struct sti_overdue_entry *entry = (struct sti_overdue_entry *)timer;
    uint64_t time = overdue_due(entry);
    if (time > sti_clock_now()) {
        sti_monitor_put_off(&entry->worker->pool->monitor, timer, time);
        return false;
    }
    entry->given_up = true;
    entry->replaced = sti_substitute_replace(entry->worker);
    bool notified = entry->worker->pool->options.on_overdue != NULL;
    struct report *report = notified ? make_report(entry, sti_clock_now()) : NULL;
    if (report != NULL)
        sti_continuation_now(entry->task, &report->turn, overdue_notify);
    return false;
}

/* --- The worker --------------------------------------------------------------------------------------------------- */

void sti_overdue_begin_task(struct sti_overdue_entry *entry, struct sti_worker *worker, sti_task *task)
{
    stint_pool *pool = worker->pool;
    *entry = (struct sti_overdue_entry){ .worker = worker, .task = task, .started = sti_clock_now() };
    uint64_t time = overdue_due(entry);
    if (time != UINT64_MAX)
        sti_monitor_set(&pool->monitor, &entry->timer, STI_TIMER_OVERDUE, time);
}

void sti_overdue_end_task(struct sti_overdue_entry *entry)
{
    sti_monitor_forget(&entry->worker->pool->monitor, &entry->timer);
    if (entry->given_up)
        sti_substitute_return(entry->worker);
}

/* --- Measuring neglect. After the task has run, so that tasks which did not wait pay a comparison for it: a worker
 * that was idle while it waited, and has gone to work since, is missed unless it is the one that took it. A worker
 * counts as idle while it is parked and no worker has been called: the load of the machine is not measured. */

/* Nanoseconds from when the task was submitted, or somebody was parked, until this. */
static uint64_t waits_overlap(uint64_t submitted, uint64_t end, uint64_t parked_since)
{
    uint64_t since = parked_since > submitted ? parked_since : submitted;
    return parked_since != 0 && end > since ? end - since : 0;
}

/* The time from which on a worker was on its way to look for waiting tasks. From then on the system decides how soon
 * the worker gets a processor, which is not the pool's doing. */
static uint64_t worker_answered(const struct sti_worker *worker, uint64_t parked_since, uint64_t submitted)
{
    uint64_t called = atomic_load_explicit(&worker->called_ns, memory_order_relaxed);
    if (called >= submitted)
        return called;
    return parked_since != 0 && called >= parked_since ? submitted : UINT64_MAX;
}

static uint64_t when_parked(const struct sti_worker *worker)
{
    return atomic_load_explicit(&worker->parked_since, memory_order_relaxed);
}

static uint64_t first_answer(const struct sti_worker *taker, uint64_t submitted)
{
    const stint_pool *pool = taker->pool;
    uint64_t first = worker_answered(taker, taker->idled_since, submitted);
    for (unsigned i = 0; i < sti_pool_slots(pool); i++) {
        uint64_t answer = worker_answered(&pool->workers[i], when_parked(&pool->workers[i]), submitted);
        first = answer < first ? answer : first;
    }
    return first;
}

/* Whether a task could begin from its submission on: a task with an account may have been held back, and where the fair
 * queue is full of those, any other has waited for a slot. */
static bool could_begin(const stint_pool *pool, const sti_task *task)
{
    return task->options.account == NULL && !task->was_queued_for_slot && !pool->options.hold_near_memory_limit;
}

void sti_neglect_note(struct sti_worker *worker, const sti_task *task)
{
    const stint_pool *pool = worker->pool;
    uint64_t submitted = task->submitted_ns;
    uint64_t begun = submitted + task->outcome.usage.queued_ns;
    if (!could_begin(pool, task))
        return;
    uint64_t answer = first_answer(worker, submitted);
    uint64_t end = answer < begun ? answer : begun;
    uint64_t longest = waits_overlap(submitted, end, worker->idled_since);
    for (unsigned i = 0; i < sti_pool_slots(pool); i++) {
        uint64_t neglect = waits_overlap(submitted, end, when_parked(&pool->workers[i]));
        longest = neglect > longest ? neglect : longest;
    }
    if (longest >= STINT_NEGLECT_NS)
        sti_counter_add_own(&worker->neglected);
    if (longest > atomic_load_explicit(&worker->longest_neglect, memory_order_relaxed))
        atomic_store_explicit(&worker->longest_neglect, longest, memory_order_relaxed);
}
