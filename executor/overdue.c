/* SPDX-License-Identifier: MIT
 *
 * Overdue tasks; see overdue.h. */
#include "overdue.h"

#include <stddef.h>
#include <stint/account.h>
#include <string.h>
#include <time.h>

#include "alloc/ask.h"
#include "alloc/boundary.h"
#include "alloc/clock.h"
#include "alloc/plain_lock.h"
#include "alloc/process.h"
#include "alloc/thread.h"
#include "expired.h"
#include "follow.h"
#include "pool_state.h"
#include "spare.h"
#include "worker.h"

/* A thread that does not run answers late or never: then there is no callstack. */
#define LONGEST_QUESTION_NS UINT64_C(50000000)

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
    unsigned question;
    stint_overdue_report report;
    stint_account *account; /* retained */
    char name[STINT_NAME_SIZE];
};

static bool await_answer(const struct report *report, struct sti_answer *answer)
{
    static const struct timespec nap = { .tv_nsec = 200000 };
    uint64_t end = sti_clock_now() + LONGEST_QUESTION_NS;
    while (!sti_ask_read(&report->worker->ask, report->question, answer)) {
        if (report->question == 0 || sti_clock_now() >= end)
            return false;
        nanosleep(&nap, NULL);
    }
    return true;
}

static void tell(struct sti_line_turn *turn)
{
    struct report *report = (struct report *)turn;
    struct sti_answer answer;
    if (await_answer(report, &answer)) {
        report->report.frames = answer.frames;
        report->report.depth = answer.depth;
        report->report.task.deferral = answer.deferral;
    }
    STI_BOUNDARY_CALLBACK("report", report->overdue->function, &report->report, report->overdue->arg, NULL);
    stint_account_release(report->account);
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
    report->report.task = (stint_task_view){
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
    report->question = sti_ask_send(&entry->worker->ask);
    return report;
}

/* Its timer is out, and the task still runs. */
static void deal_with(struct sti_overdue *overdue, struct sti_overdue_entry *entry, uint64_t now)
{
    entry->given_up = true;
    entry->replaced = sti_spare_replace(entry->worker);
    struct report *report = overdue->function != NULL ? make_report(overdue, entry, now) : NULL;
    if (report != NULL)
        sti_follow_now(entry->task, &report->turn, tell);
}

static void deal_with_all(void *argument)
{
    struct sti_overdue *overdue = argument;
    uint64_t now = sti_clock_now();
    sti_follow_hold();
    sti_plain_mutex_lock(&overdue->lock);
    while (overdue->due != NULL) {
        struct sti_overdue_entry *entry = overdue->due;
        overdue->due = entry->next_due;
        deal_with(overdue, entry, now);
    }
    sti_plain_mutex_unlock(&overdue->lock);
    sti_expired_hand_over(overdue->reports, sti_follow_let_go());
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
    sti_ask_drop(&entry->worker->ask);
    sti_plain_mutex_unlock(&overdue->lock);
    if (entry->given_up)
        sti_spare_return(entry->worker);
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
