/* SPDX-License-Identifier: MIT
 *
 * Tasks as seen from another thread: those that are overdue, visits to all, and how long one waits beside an idle
 * worker; see overdue.h. */
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

/* --- Overdue tasks. --- */

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
    stint_task_view view;   /* that the report points to */
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
        report->view.deferral = answer.deferral;
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
    sti_ask_drop(&entry->worker->ask);
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

/* --- stint_pool_visit; the protocol is in overdue.h. Any thread. --- */

atomic_uint sti_visits;

/* Held by the visitor. */
static struct sti_process_fork_lock turn = { .mutex = PTHREAD_MUTEX_INITIALIZER };

void sti_visit_await(void)
{
    /* acquire: what the visitor read it has read. */
    while (atomic_load_explicit(&sti_visits, memory_order_acquire) != 0)
        sti_futex_wait(&sti_visits, 1, NULL);
}

static void begin(void)
{
    sti_plain_mutex_lock(&turn.mutex);
    atomic_exchange_explicit(&sti_visits, 1, memory_order_seq_cst);
    ck_pr_fence_atomic_load();
}

static void end(void)
{
    atomic_store_explicit(&sti_visits, 0, memory_order_release);
    sti_futex_wake_all(&sti_visits);
    sti_plain_mutex_unlock(&turn.mutex);
}

__attribute__((constructor)) static void prepare(void)
{
    sti_process_fork_add(&turn);
}

/* --- The snapshot ------------------------------------------------------------------------------------------------- */

struct record {
    stint_task_view view;
    stint_account *account; /* retained */
    char name[STINT_NAME_SIZE];
};

struct snapshot {
    struct record *records;
    size_t count, room;
    uint64_t now;
    uint64_t overdue_ns;
    bool failed; /* no memory */
};

static struct record *add(struct snapshot *snapshot)
{
    if (snapshot->count == snapshot->room && !snapshot->failed) {
        size_t room = snapshot->room * 2 + 64;
        struct record *records = sti_process_realloc(snapshot->records, room * sizeof *records);
        snapshot->failed = records == NULL;
        if (!snapshot->failed) {
            snapshot->records = records;
            snapshot->room = room;
        }
    }
    return snapshot->failed ? NULL : &snapshot->records[snapshot->count++];
}

/* A task that cannot resolve now. started: 0 where it is not known. */
static struct record *take_down(struct snapshot *snapshot, const sti_task *task, uint64_t started)
{
    struct record *record = add(snapshot);
    if (record == NULL)
        return NULL;
    const stint_options *options = &task->options;
    uint64_t deadline = sti_overdue_deadline(task, started);
    uint64_t now = snapshot->now;
    record->view = (stint_task_view){
        .priority = options->priority,
        .age_ns = now > task->submitted_ns ? now - task->submitted_ns : 0,
        .run_ns = started != 0 && now > started ? now - started : 0,
        .limits = options->budget,
        .overdue = now > deadline && now - deadline > snapshot->overdue_ns,
    };
    record->account = stint_account_retain(options->account);
    record->name[0] = '\0';
    if (options->name != NULL)
        strncat(record->name, options->name, sizeof record->name - 1);
    record->view.name = options->name; /* set to the copy when the records do not move any more */
    return record;
}

/* The next whole task: of subtasks the task is shown where it runs. */
static const struct sti_frame *whole(const struct sti_frame *frame)
{
    while (frame != NULL && frame->stolen)
        frame = frame->below;
    return frame;
}

static void look_at_worker(struct snapshot *snapshot, struct sti_worker *worker)
{
    /* acquire: the frames are there. */
    const struct sti_frame *innermost = whole(atomic_load_explicit(&worker->running, memory_order_acquire));
    const struct sti_thread *thread = atomic_load_explicit(&worker->record, memory_order_acquire);
    for (const struct sti_frame *frame = innermost; frame != NULL; frame = whole(frame->below)) {
        bool on_top = frame == innermost && thread != NULL;
        uint64_t started = on_top ? atomic_load_explicit(&thread->started, memory_order_relaxed) : 0;
        struct record *record = take_down(snapshot, frame->task, started > 1 ? started : 0);
        if (record == NULL)
            return;
        record->view.running = true;
        record->view.worker = worker->index;
        if (on_top) {
            record->view.memory = atomic_load_explicit(&thread->held, memory_order_relaxed);
            record->view.deferral = sti_deferral_noted(thread);
        }
    }
}

static void look_at_entry(void *entry, void *snapshot)
{
    sti_task *task = entry;
    if (sti_task_is_queued(task))
        take_down(snapshot, task, 0);
}

static void look_at_all(struct snapshot *snapshot, stint_pool *pool)
{
    unsigned slots = sti_pool_slots(pool);
    for (unsigned i = 0; i < slots; i++)
        look_at_worker(snapshot, &pool->workers[i]);
    sti_queue_look(&pool->queue, look_at_entry, snapshot);
    for (unsigned i = 0; i < slots; i++)
        sti_deque_look(&pool->workers[i].deque, look_at_entry, snapshot);
    sti_fair_queue_look(&pool->fair_queue, look_at_entry, snapshot);
}

static void show(struct snapshot *snapshot, stint_visit_fn *visit, void *arg)
{
    bool more = !snapshot->failed;
    for (size_t i = 0; i < snapshot->count; i++) {
        struct record *record = &snapshot->records[i];
        record->view.name = record->view.name != NULL ? record->name : NULL;
        record->view.account = record->account != NULL ? stint_account_name(record->account) : NULL;
        more = more && visit(&record->view, arg);
        stint_account_release(record->account);
    }
    sti_process_free(snapshot->records);
}

int stint_pool_visit(stint_pool *pool, stint_visit_fn *visit, void *arg)
{
    if (pool == NULL || visit == NULL)
        return EINVAL;
    if (sti_pool_is_left_behind(pool))
        return EOWNERDEAD;
    struct snapshot snapshot = { .now = sti_clock_now(), .overdue_ns = pool->overdue.after_ns };
    begin();
    look_at_all(&snapshot, pool);
    end();
    show(&snapshot, visit, arg);
    return snapshot.failed ? ENOMEM : 0;
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
