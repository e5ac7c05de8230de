/* SPDX-License-Identifier: MIT
 *
 * stint_pool_visit: a snapshot of a pool's tasks; the protocol is in visits.h. Any thread. */
#include "visit.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stint/account.h>
#include <stint/interrupt.h>
#include <stint/pool.h>
#include <string.h>

#include "alloc/interrupt/hold.h"
#include "alloc/meter/global.h"
#include "alloc/platform/clock.h"
#include "alloc/platform/module.h"
#include "alloc/platform/process.h"
#include "alloc/platform/thread.h"
#include "executor/base/event.h"
#include "executor/base/state.h"
#include "executor/base/visits.h"
#include "executor/queue/fair_queue.h"
#include "executor/worker/worker.h"
#include "overdue.h"

/* Held by the visitor. */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

static void visit_begin(void)
{
    sti_real_mutex_lock(&turn);
    atomic_exchange_explicit(&sti_visits, 1, memory_order_seq_cst);
    ck_pr_fence_atomic_load();
}

static void visit_end(void)
{
    atomic_store_explicit(&sti_visits, 0, memory_order_release);
    sti_futex_wake_all(&sti_visits);
    sti_real_mutex_unlock(&turn);
}

/* --- One task, as it is seen --- */

void sti_seen_take_down(struct sti_seen *seen, const stint_pool *pool, const sti_task *task, struct sti_worker *worker,
                        uint64_t started, uint64_t now)
{
    const stint_options *options = &task->options;
    uint64_t deadline = sti_overdue_deadline(task, started);
    seen->view = (stint_task_view){
        .name = options->name,
        .priority = options->priority,
        .running = worker != NULL,
        .worker = worker != NULL ? worker->index : 0,
        .age_ns = now > task->submitted_ns ? now - task->submitted_ns : 0,
        .run_ns = started != 0 && now > started ? now - started : 0,
        .limits = sti_task_budget(task),
        .overdue = now > deadline && now - deadline > pool->options.overdue_ns,
    };
    const struct sti_thread *thread = started != 0 ? atomic_load_explicit(&worker->record, memory_order_acquire) : NULL;
    if (thread != NULL) {
        seen->view.memory = sti_global_held(thread);
        seen->view.deferral = sti_deferral_noted(thread);
    }
    seen->account = stint_account_retain(options->account);
    seen->name[0] = '\0';
    if (options->name != NULL)
        strncat(seen->name, options->name, sizeof seen->name - 1);
}

const stint_task_view *sti_seen_view(struct sti_seen *seen)
{
    seen->view.name = seen->view.name != NULL ? seen->name : NULL;
    seen->view.account = seen->account != NULL ? stint_account_name(seen->account) : NULL;
    return &seen->view;
}

/* --- The snapshot ------------------------------------------------------------------------------------------------- */

struct snapshot {
    const stint_pool *pool;
    struct sti_seen *tasks;
    size_t count, room;
    uint64_t now;
    bool failed; /* no memory */
};

/* started: 0 where it is not known. */
static void snapshot_add_task(struct snapshot *snapshot, const sti_task *task, struct sti_worker *worker,
                              uint64_t started)
{
    if (snapshot->count == snapshot->room && !snapshot->failed) {
        size_t room = snapshot->room * 2 + 64;
        struct sti_seen *moved = sti_process_realloc(snapshot->tasks, room * sizeof *moved);
        snapshot->failed = moved == NULL;
        if (moved != NULL) {
            snapshot->tasks = moved;
            snapshot->room = room;
        }
    }
    if (!snapshot->failed)
        sti_seen_take_down(&snapshot->tasks[snapshot->count++], snapshot->pool, task, worker, started, snapshot->now);
}

/* Of subtasks the task is shown where it runs. */
static void look_at_worker(struct snapshot *snapshot, struct sti_worker *worker)
{
    const struct sti_thread *thread = atomic_load_explicit(&worker->record, memory_order_acquire);
    uint64_t started = thread != NULL ? atomic_load_explicit(&thread->started, memory_order_relaxed) : 0;
    /* acquire: the frames are there. */
    const struct sti_frame *frame = atomic_load_explicit(&worker->running, memory_order_acquire);
    for (; frame != NULL; frame = frame->below) {
        if (frame->stolen)
            continue;
        snapshot_add_task(snapshot, frame->task, worker, started > 1 ? started : 0);
        started = 0; /* that of the innermost is known */
    }
}

static void look_at_entry(void *entry, void *snapshot)
{
    const sti_task *task = entry;
    if (sti_task_is_queued(entry))
        snapshot_add_task(snapshot, task, NULL, 0);
}

static void visit_look_at_all(struct snapshot *snapshot, stint_pool *pool)
{
    unsigned slots = sti_pool_slots(pool);
    for (unsigned i = 0; i < slots; i++)
        look_at_worker(snapshot, &pool->workers[i]);
    sti_queue_look(&pool->queue, look_at_entry, snapshot);
    for (unsigned i = 0; i < slots; i++)
        sti_deque_look(&pool->workers[i].deque, look_at_entry, snapshot);
    sti_fair_queue_look(&pool->fair_queue, look_at_entry, snapshot);
}

/* --- The visit ---------------------------------------------------------------------------------------------------- */

static void snapshot_show(const struct snapshot *snapshot, stint_visit_fn *visit, void *arg)
{
    bool more = !snapshot->failed;
    for (size_t i = 0; i < snapshot->count; i++) {
        struct sti_seen *seen = &snapshot->tasks[i];
        more = more && visit(sti_seen_view(seen), arg);
        stint_account_release(seen->account);
    }
    sti_process_free(snapshot->tasks);
}

int stint_pool_visit(stint_pool *pool, stint_visit_fn *visit, void *arg)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (pool == NULL || visit == NULL)
        return EINVAL;
    struct snapshot snapshot = { .pool = pool, .now = sti_clock_now() };
    stint_mask(); /* what is held here would be lost */
    visit_begin();
    visit_look_at_all(&snapshot, pool);
    visit_end();
    snapshot_show(&snapshot, visit, arg);
    stint_unmask();
    return snapshot.failed ? ENOMEM : 0;
}
