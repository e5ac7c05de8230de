/* SPDX-License-Identifier: MIT
 *
 * stint_pool_visit: a snapshot of a pool's tasks, and where those that run are; the protocol is in visit.h. Any
 * thread. */
#include "visit.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stint/account.h>
#include <stint/interrupt.h>
#include <stint/visit.h>
#include <string.h>

#include "alloc/base/clock.h"
#include "alloc/base/module.h"
#include "alloc/base/process.h"
#include "alloc/base/thread.h"
#include "alloc/interrupt/hold.h"
#include "alloc/interrupt/signals.h"
#include "executor/base/event.h"
#include "executor/worker/substitute.h"
#include "executor/worker/worker.h"
#include "overdue.h"
#include "pool_state.h"

atomic_uint sti_visits;

/* Held by the visitor. */
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

/* --- The snapshot ------------------------------------------------------------------------------------------------- */

struct record {
    stint_task_view view;
    stint_account *account; /* retained */
    char name[STINT_NAME_SIZE];
};

/* A task that runs: the first so many records. Where there are several on one worker, they stand side by side. */
struct run {
    sti_task *task; /* retained */
    struct sti_worker *worker;
    unsigned question;
    size_t depth;
    void *frames[STI_ASK_DEPTH];
};

struct snapshot {
    struct record *records;
    size_t count, room;
    struct run *runs;
    size_t run_count, run_room;
    uint64_t now;
    uint64_t overdue_ns;
    bool failed; /* no memory */
};

/* The array, with room for one more; NULL: no memory. */
static void *with_room(struct snapshot *snapshot, void *array, size_t count, size_t *room, size_t size)
{
    if (count < *room || snapshot->failed)
        return array;
    void *moved = sti_process_realloc(array, (*room * 2 + 64) * size);
    snapshot->failed = moved == NULL;
    if (moved == NULL)
        return array;
    *room = *room * 2 + 64;
    return moved;
}

static struct record *add(struct snapshot *snapshot)
{
    snapshot->records =
        with_room(snapshot, snapshot->records, snapshot->count, &snapshot->room, sizeof *snapshot->records);
    return snapshot->failed ? NULL : &snapshot->records[snapshot->count++];
}

/* It stays while its answer is awaited, so that no other can be taken for it. */
static void add_run(struct snapshot *snapshot, struct sti_worker *worker, const sti_task *task)
{
    snapshot->runs =
        with_room(snapshot, snapshot->runs, snapshot->run_count, &snapshot->run_room, sizeof *snapshot->runs);
    if (snapshot->failed)
        return;
    struct run *run = &snapshot->runs[snapshot->run_count++];
    run->task = (sti_task *)(uintptr_t)task;
    run->worker = worker;
    run->depth = 0;
    sti_task_retain(run->task);
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
        add_run(snapshot, worker, frame->task);
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

/* --- Where those are that run. Nothing is held meanwhile: they go on, and may have ended. ------------------------- */

/* A thread that does not run answers late or never: then it is not known where it is. */
#define LONGEST_QUESTION_NS UINT64_C(50000000)

#define REST_ROUNDS 20

uint64_t sti_answer_deadline(void)
{
    return sti_deadline_after(LONGEST_QUESTION_NS);
}

bool sti_answer_await(struct sti_ask *ask, unsigned question, uint64_t deadline, struct sti_answer *answer)
{
    for (unsigned round = 0; !sti_ask_read(ask, question, answer); round++) {
        if (question == 0 || sti_clock_now() >= deadline)
            return false;
        if (round < REST_ROUNDS)
            sti_rest(round);
        else
            sti_thread_nap(100000);
    }
    return true;
}

static void take_frames(struct run *run, const struct sti_answer *answer)
{
    size_t first;
    run->depth = sti_answer_frames(answer, run->task, &first);
    memcpy(run->frames, answer->frames + first, run->depth * sizeof *run->frames);
}

static bool is_on_same_worker(const struct run *run, const struct run *first)
{
    return run > first && run[-1].worker == run->worker;
}

/* All at once, and each worker once. */
static void ask_all(const struct snapshot *snapshot)
{
    for (struct run *run = snapshot->runs; run < snapshot->runs + snapshot->run_count; run++)
        run->question = is_on_same_worker(run, snapshot->runs) ? run[-1].question : sti_ask_send(&run->worker->ask);
}

static void find_where_they_are(struct snapshot *snapshot)
{
    struct sti_answer answer;
    bool answered = false;
    uint64_t deadline = sti_answer_deadline();
    ask_all(snapshot);
    for (size_t i = 0; i < snapshot->run_count; i++) {
        struct run *run = &snapshot->runs[i];
        if (!is_on_same_worker(run, snapshot->runs))
            answered = sti_answer_await(&run->worker->ask, run->question, deadline, &answer);
        if (answered)
            take_frames(run, &answer);
        snapshot->records[i].view.frames = run->frames;
        snapshot->records[i].view.depth = run->depth;
    }
}

/* --- The visit ---------------------------------------------------------------------------------------------------- */

static void let_go(const struct snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->run_count; i++)
        sti_task_release(snapshot->runs[i].task);
    sti_process_free(snapshot->runs);
}

static void show(const struct snapshot *snapshot, stint_visit_fn *visit, void *arg)
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
    if (sti_process_is_partial())
        return ENOTSUP;
    if (pool == NULL || visit == NULL)
        return EINVAL;
    struct snapshot snapshot = { .now = sti_clock_now(), .overdue_ns = pool->overdue.after_ns };
    stint_mask(); /* what is held here would be lost */
    begin();
    look_at_all(&snapshot, pool);
    end();
    if (!snapshot.failed)
        find_where_they_are(&snapshot);
    show(&snapshot, visit, arg);
    let_go(&snapshot);
    stint_unmask();
    return snapshot.failed ? ENOMEM : 0;
}
