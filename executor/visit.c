/* SPDX-License-Identifier: MIT
 *
 * stint_pool_visit; the protocol is in visit.h. Any thread. */
#include "visit.h"

#include <errno.h>
#include <pthread.h>
#include <stint/account.h>
#include <stint/visit.h>
#include <string.h>

#include "alloc/clock.h"
#include "alloc/deferral.h"
#include "alloc/plain_lock.h"
#include "alloc/process.h"
#include "alloc/thread.h"
#include "futex.h"
#include "overdue.h"
#include "pool_state.h"
#include "worker.h"

atomic_uint sti_visits;

/* Held by the visitor, and over a fork. */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

void sti_visit_await(void)
{
    /* acquire: what the visitor read it has read. */
    while (atomic_load_explicit(&sti_visits, memory_order_acquire) != 0)
        sti_futex_wait(&sti_visits, 1, NULL);
}

static void begin(void)
{
    sti_plain_mutex_lock(&turn);
    atomic_exchange_explicit(&sti_visits, 1, memory_order_seq_cst);
    ck_pr_fence_atomic_load();
}

static void end(void)
{
    atomic_store_explicit(&sti_visits, 0, memory_order_release);
    sti_futex_wake_all(&sti_visits);
    sti_plain_mutex_unlock(&turn);
}

static void before_fork(void)
{
    sti_plain_mutex_lock(&turn);
}

static void after_fork(void)
{
    sti_plain_mutex_unlock(&turn);
}

__attribute__((constructor)) static void prepare(void)
{
    pthread_atfork(before_fork, after_fork, after_fork);
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
    sti_tenants_look(&pool->tenants, look_at_entry, snapshot);
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
