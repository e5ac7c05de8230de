/* SPDX-License-Identifier: MIT
 *
 * Tasks as seen from another thread: those that are overdue, and how long one waits beside an idle worker; see
 * overdue.h. */
#include "overdue.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stint/account.h>
#include <stint/visit.h>
#include <string.h>
#include <time.h>

#include "alloc/base/clock.h"
#include "alloc/base/module.h"
#include "alloc/base/process.h"
#include "alloc/base/thread.h"
#include "alloc/interrupt/boundary.h"
#include "alloc/interrupt/interrupt.h"
#include "alloc/interrupt/signals.h"
#include "alloc/interrupt/watch.h"
#include "executor/base/event.h"
#include "executor/task/continuation.h"
#include "executor/worker/substitute.h"
#include "executor/worker/worker.h"
#include "monitor.h"
#include "pool_state.h"
#include "visit.h"

/* --- Overdue tasks. --- */

static uint64_t after(uint64_t begin, uint64_t time)
{
    uint64_t end;
    return time == 0 || __builtin_add_overflow(begin, time, &end) ? UINT64_MAX : end;
}

uint64_t sti_overdue_deadline(const sti_task *task, uint64_t started)
{
    const stint_budget *budget = &task->options.budget;
    uint64_t whole = after(task->submitted_ns, budget->wall_ns);
    uint64_t run = started != 0 ? after(started, budget->run_ns) : UINT64_MAX;
    return run < whole ? run : whole;
}

/* --- The report, on the pool's thread ----------------------------------------------------------------------------- */

struct report {
    struct sti_line_turn turn; /* of the task, but it does not wait for its end */
    struct sti_overdue *overdue;
    struct sti_worker *worker;
    sti_task *task; /* retained, so that no other can be taken for it */
    unsigned question;
    stint_overdue_report report;
    stint_task_view view;   /* that the report points to */
    stint_account *account; /* retained */
    char name[STINT_NAME_SIZE];
};

static void tell(struct sti_line_turn *turn)
{
    struct report *report = (struct report *)turn;
    struct sti_ask *ask = &report->worker->ask;
    struct sti_answer answer;
    size_t first;
    bool answered = sti_answer_await(ask, report->question, sti_answer_deadline(), &answer);
    sti_ask_want_deferral(ask, false);
    size_t depth = answered ? sti_answer_frames(&answer, report->task, &first) : 0;
    if (depth > 0) {
        report->report.frames = report->view.frames = answer.frames + first;
        report->report.depth = report->view.depth = depth;
        report->view.deferral = answer.deferral;
    }
    STI_BOUNDARY_CALLBACK("report", report->overdue->function, &report->report, report->overdue->arg, NULL);
    stint_account_release(report->account);
    sti_task_release(report->task);
    sti_process_free(report);
}

/* --- The watch ---------------------------------------------------------------------------------------------------- */

static struct report *make_report(struct sti_overdue *overdue, const struct sti_overdue_entry *entry, uint64_t now)
{
    struct report *report = sti_process_calloc(1, sizeof *report);
    if (report == NULL)
        return NULL;
    const stint_options *options = &entry->task->options;
    const struct sti_thread *thread = atomic_load_explicit(&entry->worker->record, memory_order_acquire);
    report->overdue = overdue;
    report->worker = entry->worker;
    report->account = stint_account_retain(options->account);
    if (options->name != NULL)
        strncat(report->name, options->name, sizeof report->name - 1);
    report->report.late_ns = now - entry->deadline;
    report->report.replaced = entry->replaced;
    report->report.task = &report->view;
    report->view = (stint_task_view){
        .name = options->name != NULL ? report->name : NULL,
        .account = options->account != NULL ? stint_account_name(options->account) : NULL,
        .priority = options->priority,
        .running = true,
        .worker = entry->worker->index,
        .age_ns = now - entry->task->submitted_ns,
        .run_ns = now - entry->started,
        .memory = thread != NULL ? atomic_load_explicit(&thread->held, memory_order_relaxed) : 0,
        .limits = options->budget,
        .overdue = true,
    };
    report->task = entry->task;
    sti_task_retain(entry->task);
    sti_ask_want_deferral(&entry->worker->ask, true);
    report->question = sti_ask_send(&entry->worker->ask);
    return report;
}

/* Its timer is out, and the task still runs. */
static void deal_with(struct sti_overdue *overdue, struct sti_overdue_entry *entry, uint64_t now)
{
    entry->given_up = true;
    entry->replaced = sti_substitute_replace(entry->worker);
    struct report *report = overdue->function != NULL ? make_report(overdue, entry, now) : NULL;
    if (report != NULL)
        sti_continuation_now(entry->task, &report->turn, tell);
}

static void deal_with_all(void *argument)
{
    struct sti_overdue *overdue = argument;
    uint64_t now = sti_clock_now();
    sti_continuation_hold();
    sti_plain_mutex_lock(&overdue->lock);
    while (overdue->due != NULL) {
        struct sti_overdue_entry *entry = overdue->due;
        overdue->due = entry->next_due;
        deal_with(overdue, entry, now);
    }
    sti_plain_mutex_unlock(&overdue->lock);
    sti_expired_hand_over(overdue->reports, sti_continuation_let_go());
}

static uint64_t look_at_timers(struct sti_watch *watch, uint64_t now)
{
    struct sti_overdue *overdue = (struct sti_overdue *)((char *)watch - offsetof(struct sti_overdue, watch));
    sti_plain_mutex_lock(&overdue->lock);
    for (struct sti_timer *timer = sti_timers_expire(&overdue->timers, now); timer != NULL;) {
        struct sti_overdue_entry *entry = (struct sti_overdue_entry *)timer;
        timer = timer->next;
        entry->next_due = overdue->due;
        overdue->due = entry;
    }
    uint64_t next = sti_timers_next(&overdue->timers);
    bool any = overdue->due != NULL;
    sti_plain_mutex_unlock(&overdue->lock);
    if (!any)
        return next != STI_TIMERS_NONE ? next : STI_WATCH_NEVER;
    sti_watch_call(watch, deal_with_all, overdue);
    return STI_WATCH_AGAIN;
}

/* --- The worker --------------------------------------------------------------------------------------------------- */

/* Where no thread can be started, nobody is told. */
static void have_watch(struct sti_overdue *overdue)
{
    bool watched = false;
    if (atomic_load_explicit(&overdue->watched, memory_order_relaxed) ||
        !atomic_compare_exchange_strong_explicit(&overdue->watched, &watched, true, memory_order_relaxed,
                                                 memory_order_relaxed))
        return;
    if (sti_watch_begin(&overdue->watch, 0) != 0)
        atomic_store_explicit(&overdue->watched, false, memory_order_relaxed);
}

void sti_overdue_begin_task(struct sti_overdue *overdue, struct sti_overdue_entry *entry, struct sti_worker *worker,
                            sti_task *task)
{
    *entry = (struct sti_overdue_entry){ .worker = worker, .task = task, .started = sti_clock_now() };
    entry->deadline = sti_overdue_deadline(task, entry->started);
    uint64_t time = after(entry->deadline, overdue->after_ns);
    if (time == UINT64_MAX)
        return;
    sti_plain_mutex_lock(&overdue->lock);
    uint64_t look = sti_timers_add(&overdue->timers, &entry->timer, time);
    sti_plain_mutex_unlock(&overdue->lock);
    have_watch(overdue);
    if (look != STI_TIMERS_NONE)
        sti_watch_hasten(look);
}

void sti_overdue_end_task(struct sti_overdue *overdue, struct sti_overdue_entry *entry)
{
    sti_plain_mutex_lock(&overdue->lock);
    sti_timers_remove(&overdue->timers, &entry->timer);
    struct sti_overdue_entry **link = &overdue->due;
    while (*link != NULL && *link != entry)
        link = &(*link)->next_due;
    if (*link != NULL)
        *link = entry->next_due;
    sti_plain_mutex_unlock(&overdue->lock);
    if (entry->given_up)
        sti_substitute_return(entry->worker);
}

void sti_overdue_init(struct sti_overdue *overdue, struct sti_expired *reports)
{
    overdue->reports = reports;
    overdue->watch = (struct sti_watch){ .look = look_at_timers, .only_time = true };
    atomic_init(&overdue->watched, false);
    pthread_mutex_init(&overdue->lock, NULL);
    sti_timers_init(&overdue->timers, sti_clock_now());
    overdue->due = NULL;
}

void sti_overdue_end(struct sti_overdue *overdue)
{
    sti_watch_end(&overdue->watch);
    pthread_mutex_destroy(&overdue->lock);
}

/* --- Measuring neglect. After the task has run, so that tasks which did not wait pay a comparison for it: a
 * worker that was idle while it waited, and has gone to work since, is missed unless it is the one that took it. Idle
 * is who is parked while nobody has been called: the load of the machine is not measured. */

/* Nanoseconds from when the task was submitted, or somebody was parked, until this. */
static uint64_t overlap(uint64_t submitted, uint64_t end, uint64_t parked_since)
{
    uint64_t since = parked_since > submitted ? parked_since : submitted;
    return parked_since != 0 && end > since ? end - since : 0;
}

/* From when on a worker was on its way to look for all that waits: what is left then is how soon he gets a processor,
 * and that is not the pool's doing. */
static uint64_t answered(const struct sti_worker *worker, uint64_t parked_since, uint64_t submitted)
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
    uint64_t first = answered(taker, taker->idled_since, submitted);
    for (unsigned i = 0; i < sti_pool_slots(pool); i++) {
        uint64_t answer = answered(&pool->workers[i], when_parked(&pool->workers[i]), submitted);
        first = answer < first ? answer : first;
    }
    return first;
}

/* Since it was submitted, that is: a task with an account may have been held back, and where the room is full of those,
 * another has waited for a slot. */
static bool could_begin(const stint_pool *pool, const sti_task *task)
{
    return task->options.account == NULL && !task->stood_in_line && !pool->holds_near_limit;
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
    uint64_t longest = overlap(submitted, end, worker->idled_since);
    for (unsigned i = 0; i < sti_pool_slots(pool); i++) {
        uint64_t neglect = overlap(submitted, end, when_parked(&pool->workers[i]));
        longest = neglect > longest ? neglect : longest;
    }
    if (longest >= STINT_NEGLECT_NS)
        sti_counter_add_own(&worker->neglected);
    if (longest > atomic_load_explicit(&worker->longest_neglect, memory_order_relaxed))
        atomic_store_explicit(&worker->longest_neglect, longest, memory_order_relaxed);
}
