/* SPDX-License-Identifier: MIT
 *
 * A worker runs a task, with the bill for it; a task waits for a future, and runs what it waits for where nobody has
 * begun that. Any thread may wait; the rest is the worker's own. */
#include "run.h"

#include <errno.h>
#include <stddef.h>
#include <stint/interrupt.h>
#include <stint/pool.h>

#include "alloc/interrupt/hook.h"
#include "alloc/platform/clock.h"
#include "alloc/platform/instrumentation.h"
#include "alloc/platform/thread.h"
#include "alloc/platform/tracing.h"
#include "deadlock.h"
#include "executor/base/event.h"
#include "executor/base/hooks.h"
#include "executor/base/state.h"
#include "executor/queue/fair_queue.h"
#include "executor/task/compound.h"
#include "executor/task/continuation.h"
#include "executor/task/submit.h"
#include "substitute.h"
#include "worker.h"

/* --- What a worker does with a task that it has claimed: run it to its outcome, shown to visitors (visits.h), watched
 * for its deadline (overdue.h) and charged to its entry (run.h) where that is asked for. By the worker's own thread. */

static __attribute__((noinline)) void execute_above_forks(struct sti_worker *worker, sti_task *task)
{
    struct sti_split_below below = sti_split_enter(&worker->split);
    sti_task_run(task, &worker->pool->stop, &worker->tally);
    sti_split_leave(&worker->split, below);
}

static inline void worker_execute(struct sti_worker *worker, sti_task *task)
{
    if (worker->split.forks.depth == STI_SPLIT_BOTTOM(&worker->split))
        sti_task_run(task, &worker->pool->stop, &worker->tally);
    else
        execute_above_forks(worker, task);
}

static __attribute__((noinline)) void execute_watched(struct sti_worker *worker, sti_task *task)
{
    struct sti_overdue_entry entry;
    sti_above.begin_task(&entry, worker, task);
    worker_execute(worker, task);
    sti_above.end_task(&entry);
}

static __attribute__((noinline)) void execute_observed(struct sti_worker *worker, sti_task *task)
{
    sti_trace_expect(task->submitter);
    task->submitter = 0; /* its next turn, if it has one, is no submission */
    if (worker->pool->hooks != NULL)
        worker->pool->hooks->run(worker, task);
    else if (worker->pool->options.overdue_ns == 0)
        worker_execute(worker, task);
    else
        execute_watched(worker, task);
}

static void worker_run(struct sti_worker *worker, sti_task *task)
{
    struct sti_frame frame;
    sti_worker_enter(worker, &frame, task, false);
    atomic_store_explicit(&task->runner, worker, memory_order_release);
    sti_counter_add_own(&worker->tasks);
    STI_PROBE2(start, task, worker);
    if (__builtin_expect(atomic_load_explicit(&sti_tasks_observed, memory_order_relaxed) == 0, 1))
        worker_execute(worker, task);
    else
        execute_observed(worker, task);
    __asm__("" : "+r"(worker)); /* the addresses of its fields are not kept over the call */
    sti_worker_leave(worker, &frame);
    sti_task_resolve(task);
}

static __attribute__((noinline)) void run_billed(struct sti_worker *worker, sti_task *task)
{
    struct sti_stretch stretch;
    sti_bill_begin(worker, &stretch, task->fair_queue != NULL ? task->bill : worker->bill);
    worker_run(worker, task);
    sti_bill_end(worker);
}

/* Plain tasks are charged to nobody while they have the pool to themselves. */
void sti_worker_run(struct sti_worker *worker, sti_task *task)
{
    if (__builtin_expect(task->fair_queue != NULL || worker->bill.fair_entry != NULL, 0)) {
        run_billed(worker, task);
        return;
    }
    worker->clock = 0;
    worker_run(worker, task);
}

/* Forks that were stolen are their task's account's. */
void sti_worker_run_stolen(struct sti_worker *worker, struct sti_stolen stolen)
{
    struct sti_fair_queue *fair_queue = &worker->pool->fair_queue;
    const stint_options *options = sti_above.fork_options(stolen);
    struct sti_bill bill = { .fair_entry = NULL };
    worker->clock = 0;
    if (sti_fair_queue_are_ready(fair_queue))
        bill = sti_fair_queue_bill_fork(fair_queue, options->account, options->priority);
    if (bill.fair_entry == NULL) {
        sti_above.run_fork(worker, stolen);
        return;
    }
    struct sti_stretch stretch;
    sti_bill_begin(worker, &stretch, bill);
    sti_above.run_fork(worker, stolen);
    sti_bill_end(worker);
}

/* --- Billing: for how long a task occupies its worker. While it sleeps, and its place is another's, it does not: that
 * is taken off as what was charged to others is, and it pays beforehand for what it has had (substitute.c). The reading
 * of the clock at one's end does for the next one's beginning as well, where the worker goes from one to the other; to
 * have found it is part of its cost then. */

static uint64_t worker_since(uint64_t earlier, uint64_t now)
{
    return now > earlier ? now - earlier : 0; /* that may have been ahead */
}

void sti_bill_begin(struct sti_worker *worker, struct sti_stretch *stretch, struct sti_bill bill)
{
    uint64_t now = worker->clock != 0 ? worker->clock : sti_clock_now();
    *stretch = (struct sti_stretch){ .begin = now, .bill = bill, .outer = worker->stretch };
    worker->bill.fair_entry = NULL;
    worker->clock = 0;
    worker->stretch = stretch;
}

void sti_bill_end(struct sti_worker *worker)
{
    const struct sti_stretch *stretch = worker->stretch;
    uint64_t now = sti_clock_now();
    uint64_t used = worker_since(stretch->begin, now);
    sti_fair_queue_settle(&worker->pool->fair_queue, stretch->bill, worker_since(stretch->inner, used));
    worker->stretch = stretch->outer;
    if (worker->stretch != NULL)
        worker->stretch->inner += used;
    worker->clock = now;
}

/* --- Waiting until a future resolves; see docs/pool.md. Any thread.
 *
 * A task that waits for another of its pool's runs it, if nobody else has begun to: on top of its own frames, in a
 * scope of its own. Nothing else is ever run there: what is below has to wait for it, and could be what it waits for.
 * When half the stack is in use, it is left to others: the waiter sleeps, and a substitute takes its place
 * (substitute.h). When no substitute is left either, and every thread sleeps, it runs it all the same (deadlock.h). */

/* How often a waiter looks before it sleeps: some 5 microseconds in all, about what being woken costs. */
#define WAIT_ROUNDS 20

/* For one that runs elsewhere, and so cannot end as soon: some 50. A sleeper's processor would sleep too, and in a
 * virtual machine it takes as long to wake that. */
#define WAIT_ROUNDS_ELSEWHERE 200

/* No task is begun with less stack than this, whatever happens. */
#define MIN_ROOM ((size_t)64 << 10)

static bool worker_has_room(const struct sti_worker *worker)
{
    size_t reserve = worker->stack_size / 8;
    return sti_worker_has_stack(worker, reserve > MIN_ROOM ? reserve : MIN_ROOM);
}

/* So that a task has half a stack at least. */
static bool has_much_room(const struct sti_worker *worker)
{
    return sti_worker_has_stack(worker, worker->stack_size / 2);
}

struct look_below {
    struct sti_look look;
    const struct sti_worker *worker;
};

static bool is_task_below(struct sti_look *look, sti_task *task)
{
    return !sti_task_is_queued(task) && sti_worker_is_inside(((const struct look_below *)look)->worker, task);
}

/* Whether it cannot resolve before a task on this thread's stack has ended. All of some futures wait for the worst of
 * them, any for the best. */
static bool is_below(const struct sti_worker *worker, sti_task *task)
{
    struct look_below below = { .look = { .is_it = is_task_below, .every = true }, .worker = worker };
    if (!sti_task_is_compound(task) && !sti_task_is_delayed(task))
        return is_task_below(&below.look, task);
    return sti_look_at(&below.look, task);
}

/* On top of what is on the stack already. */
static void worker_run_here(struct sti_worker *worker, sti_task *task)
{
    unsigned depth = sti_substitute_interrupt_sleep(worker);
    bool suppressed = sti_waking_suppress();
    sti_worker_run_awaited(worker, task);
    if (suppressed)
        sti_waking_restore_scopes();
    sti_substitute_resume_sleep(worker, depth);
}

static void worker_run_claimed(struct sti_worker *worker, sti_task *task)
{
    if (task->pool == worker->pool && has_much_room(worker) && sti_admission_claim_awaited(task, false))
        worker_run_here(worker, task);
}

/* Not one of any: if another decides, the waiter must go on, and what runs on top of it could be waiting for that. */
static void run_members(struct sti_worker *worker, const sti_task *awaited, sti_task *task, struct sti_look *look)
{
    const struct sti_compound *compound = sti_compound_of(task);
    if (sti_task_is_resolved(task) || (compound->any && compound->count > 1) || !sti_look_enter(look))
        return;
    for (size_t i = 0; i < compound->count && !sti_task_is_resolved(awaited); i++) {
        sti_task *member = sti_compound_member(compound, i);
        if (sti_task_is_compound(member))
            run_members(worker, awaited, member, look);
        else
            worker_run_claimed(worker, member);
    }
    sti_look_leave(look);
}

/* Run what nobody has begun yet, until the awaited task has resolved. */
static void run_unbegun(struct sti_worker *worker, sti_task *awaited)
{
    if (!sti_task_is_compound(awaited)) {
        worker_run_claimed(worker, awaited);
    } else {
        struct sti_look look = { 0 };
        run_members(worker, awaited, awaited, &look);
    }
}

static bool rest_until_resolved(const sti_task *task)
{
    unsigned rounds = sti_task_is_hooked(task) ? WAIT_ROUNDS_ELSEWHERE : WAIT_ROUNDS;
    for (unsigned round = 0; round < rounds; round++) {
        if (sti_task_is_resolved(task))
            return true;
        sti_rest(round);
    }
    return false;
}

/* --- Sleeping ----------------------------------------------------------------------------------------------------- */

static bool may_go_on(const void *arg)
{
    const struct sti_sleeper *sleeper = arg;
    return sti_task_is_resolved(sleeper->task) || sti_sleeper_is_nudged(sleeper);
}

/* Until the task has resolved, or the sleeper has something else to do: 0; ETIMEDOUT; EINTR: an interrupt has come. */
static int sleeper_sleep_until(const struct sti_sleeper *sleeper, const struct sti_waking *waking, uint64_t deadline_ns)
{
    return sti_event_await(&sleeper->task->woken, may_go_on, sleeper, waking, deadline_ns);
}

/* The same as a worker, while it is on the list of those who have slept for long. Also EDEADLK, EAGAIN; 0 with
 * sleeper->found: it is to run that. */
static int sleep_watchfully(struct sti_sleeper *sleeper, const struct sti_waking *waking, uint64_t deadline_ns)
{
    int error = 0;
    bool again = true;
    enum sti_verdict verdict = STI_SLEEP_ON;
    while (again && (verdict = sti_deadlock_look(sleeper)) == STI_SLEEP_ON) {
        error = sleeper_sleep_until(sleeper, waking, deadline_ns);
        again = error == 0 && sti_sleeper_is_nudged(sleeper);
    }
    sti_deadlock_leave(sleeper);
    return verdict == STI_NEVER_ENDS ? EDEADLK : verdict == STI_GIVE_UP ? EAGAIN : error;
}

static int sleep_long(struct sti_sleeper *sleeper, uint64_t deadline_ns, bool uninterruptible)
{
    struct sti_waking waking;
    const struct sti_waking *heard = uninterruptible ? NULL : &waking;
    bool suppressed = uninterruptible && sti_waking_suppress();
    if (!uninterruptible)
        sti_waking_begin(&waking, sti_event_wake, &sleeper->task->woken);
    int error = sleeper->worker != NULL ? sleep_watchfully(sleeper, heard, deadline_ns)
                                        : sleeper_sleep_until(sleeper, heard, deadline_ns);
    if (suppressed)
        sti_waking_restore_scopes();
    if (!uninterruptible)
        sti_waking_end(&waking);
    return error;
}

/* at_once: it counts as one that has slept for long from the start. */
static int sleep_until_resolved(struct sti_sleeper *sleeper, uint64_t deadline_ns, bool uninterruptible, bool at_once)
{
    uint64_t soon = sti_deadline_after(STI_SHORT_SLEEP_NS);
    int error = ETIMEDOUT;
    if (!sti_continuation_expect_sleeper(sleeper->task))
        return 0;
    if (!at_once)
        error = sleeper_sleep_until(sleeper, NULL, soon < deadline_ns ? soon : deadline_ns);
    return error == ETIMEDOUT && soon < deadline_ns ? sleep_long(sleeper, deadline_ns, uninterruptible) : error;
}

/* --- Waiting ------------------------------------------------------------------------------------------------------ */

/* False: its account has its maximum, or somebody else has begun it. */
static bool run_found(struct sti_worker *worker, sti_task *task, bool beyond)
{
    bool claimed = sti_admission_claim_awaited(task, beyond);
    if (claimed)
        worker_run_here(worker, task);
    sti_task_release(task);
    return claimed;
}

/* A worker gives its place up meanwhile. 0: there may be something to run. refused: what the last sleep found could not
 * be run; then there is nothing else to be found for a while. */
static int sleep_for(struct sti_worker *worker, sti_task *task, uint64_t deadline_ns, bool may_run,
                     bool uninterruptible, bool *refused)
{
    struct sti_sleeper sleeper = {
        .worker = worker, .task = task, .timed = deadline_ns != STI_NEVER, .may_run = may_run && worker_has_room(worker)
    };
    bool is_last = worker != NULL && sti_substitute_fall_asleep(worker, 1);
    int error = sleep_until_resolved(&sleeper, deadline_ns, uninterruptible, is_last && !*refused);
    if (worker != NULL)
        sti_substitute_awake(worker, 1);
    *refused = sleeper.found != NULL && !run_found(worker, sleeper.found, sleeper.beyond);
    return sti_task_is_resolved(task) ? 0 : error;
}

static __attribute__((noinline)) int sleep_until_it_has(struct sti_worker *worker, sti_task *task, uint64_t deadline_ns,
                                                        bool may_run, bool uninterruptible)
{
    bool refused = false;
    int error = 0;
    do {
        error = sleep_for(worker, task, deadline_ns, may_run, uninterruptible, &refused);
        if (error == 0 && may_run)
            run_unbegun(worker, task);
    } while (error == 0 && !rest_until_resolved(task));
    return error;
}

/* 0: it has to be waited for. */
static int worker_refuse(const struct sti_worker *worker, sti_task *task)
{
    return sti_continuation_is_running() || (worker != NULL && is_below(worker, task)) ? EDEADLK : 0;
}

static inline __attribute__((always_inline)) int wait_once(sti_task *task, uint64_t deadline_ns, bool may_run,
                                                           bool uninterruptible)
{
    struct sti_worker *worker = sti_worker_current();
    if (sti_task_is_resolved(task))
        return 0;
    int error = worker_refuse(worker, task);
    if (error != 0)
        return error;
    may_run = may_run && worker != NULL;
    if (may_run)
        run_unbegun(worker, task);
    return rest_until_resolved(task) ? 0 : sleep_until_it_has(worker, task, deadline_ns, may_run, uninterruptible);
}

/* An interrupt that comes meanwhile is delivered here, where nothing of ours is held; where it has to wait, it does not
 * end the rest of the wait. */
static __attribute__((noinline)) int wait_delivering(sti_task *task, uint64_t deadline_ns, bool may_run)
{
    return sti_waking_deliver() ? ECANCELED : wait_once(task, deadline_ns, may_run, true);
}

int sti_wait(sti_task *task)
{
    int error = wait_once(task, STI_NEVER, true, false);
    return __builtin_expect(error != EINTR, 1) ? error : wait_delivering(task, STI_NEVER, true);
}

int sti_wait_until(sti_task *task, uint64_t deadline_ns)
{
    int error = wait_once(task, deadline_ns, false, false);
    return __builtin_expect(error != EINTR, 1) ? error : wait_delivering(task, deadline_ns, false);
}
