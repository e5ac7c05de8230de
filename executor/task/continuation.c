/* SPDX-License-Identifier: MIT
 *
 * What happens when a future resolves: the list of continuations, and callbacks; see continuation.h. Any thread. */
#include "continuation.h"

#include <errno.h>
#include <stddef.h>
#include <stint/future.h>

#include "alloc/interrupt/boundary.h"
#include "alloc/meter/allocate.h"
#include "alloc/platform/process.h"
#include "alloc/scope/context.h"
#include "executor/base/event.h"
#include "executor/base/state.h"
#include "task.h"

/* --- The list of continuations, and the queue of the tasks whose continuations are drained. --- */

#define SLEEPERS 1U
#define FOLLOWED 2U
#define RESOLVED 4U

/* --- The line ----------------------------------------------------------------------------------------------------- */

struct turn_queue {
    struct sti_queued_turn *first;
    struct sti_queued_turn *newest;
};

static _Thread_local struct {
    struct turn_queue usual;
    struct turn_queue last; /* for when the other is empty */
    bool running;
} queues;

static void turn_append(struct turn_queue *turn_queue, sti_task *task, struct sti_queued_turn *turn,
                        void (*run)(struct sti_queued_turn *turn))
{
    *turn = (struct sti_queued_turn){ .task = task, .run = run };
    *(turn_queue->first != NULL ? &turn_queue->newest->next : &turn_queue->first) = turn;
    turn_queue->newest = turn;
    sti_task_retain(task);
}

static struct sti_queued_turn *turn_take(struct turn_queue *turn_queue)
{
    struct sti_queued_turn *turn = turn_queue->first;
    if (turn != NULL)
        turn_queue->first = turn->next;
    return turn;
}

static void turns_run_queued(void)
{
    struct sti_queued_turn *turn;
    while ((turn = turn_take(&queues.usual)) != NULL || (turn = turn_take(&queues.last)) != NULL) {
        sti_task *task = turn->task;
        turn->run(turn);
        sti_task_release(task);
    }
}

void sti_continuation_begin_callback(void)
{
    queues.running = true;
}

void sti_continuation_end_callback(void)
{
    turns_run_queued();
    queues.running = false;
}

static void turns_run(void)
{
    if (queues.running)
        return;
    sti_continuation_begin_callback();
    sti_continuation_end_callback();
}

bool sti_continuation_is_running(void)
{
    return queues.running;
}

void sti_continuation_hold(void)
{
    queues.running = true;
}

struct sti_queued_turn *sti_continuation_let_go(void)
{
    struct sti_queued_turn *first = queues.usual.first;
    queues.usual.first = NULL;
    queues.running = false;
    return first;
}

void sti_continuation_run(struct sti_queued_turn *first)
{
    queues.usual = (struct turn_queue){ .first = first, .newest = first };
    while (queues.usual.newest != NULL && queues.usual.newest->next != NULL)
        queues.usual.newest = queues.usual.newest->next;
    turns_run();
}

void sti_continuation_now(sti_task *task, struct sti_queued_turn *turn, void (*run)(struct sti_queued_turn *turn))
{
    turn_append(&queues.usual, task, turn, run);
    turns_run();
}

static void turn_resolve(struct sti_queued_turn *turn)
{
    sti_task_resolve(turn->task);
}

void sti_task_resolve_queued(sti_task *task)
{
    sti_continuation_now(task, &task->turn, turn_resolve);
}

/* --- The list ----------------------------------------------------------------------------------------------------- */

void sti_continuation_lock(sti_task *task)
{
    for (unsigned round = 0;; round++) {
        unsigned held = 0;
        if (atomic_compare_exchange_strong_explicit(&task->lock, &held, 1, memory_order_acquire, memory_order_relaxed))
            return;
        sti_rest(round);
    }
}

void sti_continuation_unlock(sti_task *task)
{
    atomic_store_explicit(&task->lock, 0, memory_order_release);
}

/* The next three: under the lock. */
static void continuation_put_in(sti_task *task, struct sti_continuation *continuation)
{
    if (task->first_continuation == NULL)
        task->last_continuation = &task->first_continuation;
    continuation->next = NULL;
    continuation->link = task->last_continuation;
    *task->last_continuation = continuation;
    task->last_continuation = &continuation->next;
}

static void continuation_take_out(sti_task *task, struct sti_continuation *continuation)
{
    *continuation->link = continuation->next;
    if (continuation->next != NULL)
        continuation->next->link = continuation->link;
    else
        task->last_continuation = continuation->link;
    continuation->link = NULL;
}

static bool become_drainer(sti_task *task)
{
    if (task->first_continuation == NULL || task->is_drained)
        return false;
    task->is_drained = true;
    return true;
}

/* Under the lock: so the hook is called before anybody can find the task settled, while its pool is there. */
static void continuations_settle(sti_task *task)
{
    if (sti_task_is_hooked(task))
        task->pool->hooks->settle(task);
    task->is_drained = false;
}

/* NULL: there is none; and if this was the end, the thread is not the drainer any more. */
static struct sti_continuation *continuation_take_next(sti_task *task, bool ends)
{
    sti_continuation_lock(task);
    struct sti_continuation *continuation = task->first_continuation;
    if (continuation != NULL)
        continuation_take_out(task, continuation);
    else if (ends)
        continuations_settle(task);
    task->drained = continuation;
    sti_continuation_unlock(task);
    return continuation;
}

static void continuations_drain_last(struct sti_queued_turn *turn);

static void continuations_drain(struct sti_queued_turn *turn)
{
    sti_task *task = turn->task;
    struct sti_continuation *continuation;
    while ((continuation = continuation_take_next(task, false)) != NULL)
        continuation->run(continuation);
    turn_append(&queues.last, task, turn, continuations_drain_last);
}

static void continuations_drain_last(struct sti_queued_turn *turn)
{
    struct sti_continuation *continuation = continuation_take_next(turn->task, true);
    if (continuation == NULL)
        return;
    continuation->run(continuation);
    continuations_drain(turn);
}

void sti_continuation_add(struct sti_continuation *continuation)
{
    sti_task *task = continuation->task;
    sti_continuation_lock(task);
    unsigned word = atomic_fetch_or_explicit(&task->continuations, FOLLOWED, memory_order_acq_rel);
    continuation_put_in(task, continuation);
    bool drains = (word & RESOLVED) != 0 && become_drainer(task);
    sti_continuation_unlock(task);
    if (drains)
        sti_continuation_now(task, &task->turn, continuations_drain);
}

int sti_continuation_remove(struct sti_continuation *continuation)
{
    sti_task *task = continuation->task;
    int error = 0;
    sti_continuation_lock(task);
    if (continuation->link != NULL)
        continuation_take_out(task, continuation);
    else
        error = task->is_drained && task->drained == continuation ? EBUSY : EALREADY;
    sti_continuation_unlock(task);
    return error;
}

bool sti_continuation_is_followed(sti_task *task)
{
    if ((atomic_load_explicit(&task->continuations, memory_order_relaxed) & FOLLOWED) == 0)
        return false;
    sti_continuation_lock(task);
    bool followed = task->first_continuation != NULL;
    sti_continuation_unlock(task);
    return followed;
}

bool sti_continuation_is_settled(sti_task *task)
{
    unsigned word = atomic_load_explicit(&task->continuations, memory_order_acquire);
    if ((word & RESOLVED) == 0 || (word & FOLLOWED) == 0)
        return (word & RESOLVED) != 0;
    sti_continuation_lock(task);
    bool settled = task->first_continuation == NULL && !task->is_drained;
    sti_continuation_unlock(task);
    return settled;
}

static __attribute__((noinline)) void resolve_followed(sti_task *task)
{
    unsigned word = atomic_fetch_or_explicit(&task->continuations, RESOLVED, memory_order_acq_rel);
    if (word & SLEEPERS)
        sti_event_signal(&task->woken);
    if ((word & FOLLOWED) == 0)
        return;
    sti_continuation_lock(task);
    bool drains = become_drainer(task);
    sti_continuation_unlock(task);
    if (drains)
        sti_continuation_now(task, &task->turn, continuations_drain);
}

void sti_continuation_resolve(sti_task *task)
{
    unsigned open = 0;
    if (__builtin_expect(!atomic_compare_exchange_strong_explicit(&task->continuations, &open, RESOLVED,
                                                                  memory_order_acq_rel, memory_order_relaxed),
                         0))
        resolve_followed(task);
}

bool sti_continuation_expect_sleeper(sti_task *task)
{
    return (atomic_fetch_or_explicit(&task->continuations, SLEEPERS, memory_order_acq_rel) & RESOLVED) == 0;
}

/* --- stint_future_then, stint_future_add_continuation: callbacks of the application's. Any thread.
 *
 * The resolving thread may be in the midst of a task, which cancels another, or runs one that it waits for. The
 * callback is no part of that task: the thread's scopes are suspended first. */

/* The contents of a stint_continuation. */
struct callback {
    struct sti_continuation continuation;
    stint_callback_fn *function;
    void *arg;
};
_Static_assert(sizeof(struct callback) == sizeof(stint_continuation), "the public record has room for it");

static void call_aside(const struct callback *callback)
{
    struct sti_suspended_scope suspended;
    sti_scope_suspend(&suspended);
    STI_BOUNDARY_CALLBACK(callback->function, callback->continuation.task, &callback->continuation.task->outcome,
                          callback->arg);
    sti_scope_resume(&suspended);
}

/* Call the callback. From its beginning on the record belongs to the application. */
static void callback_call(struct sti_continuation *continuation)
{
    const struct callback callback = *(struct callback *)continuation;
    call_aside(&callback);
}

static void call_and_free(struct sti_continuation *continuation)
{
    const struct callback callback = *(struct callback *)continuation;
    sti_process_free(continuation);
    call_aside(&callback);
}

static void callback_follow(stint_future *future, struct callback *record,
                            void (*run)(struct sti_continuation *continuation), stint_callback_fn *function, void *arg)
{
    record->continuation.task = future;
    record->continuation.run = run;
    record->function = function;
    record->arg = arg;
    sti_continuation_add(&record->continuation);
}

int stint_future_then(stint_future *future, stint_callback_fn *callback, void *arg)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (future == NULL || callback == NULL)
        return EINVAL;
    if (!sti_record_charge(sizeof(struct callback), STI_CALLER()))
        return ENOMEM;
    struct callback *made = sti_process_malloc(sizeof *made);
    if (made == NULL)
        return ENOMEM;
    callback_follow(future, made, call_and_free, callback, arg);
    return 0;
}

int stint_future_add_continuation(stint_future *future, stint_continuation *continuation, stint_callback_fn *callback,
                                  void *arg)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (future == NULL || continuation == NULL || callback == NULL)
        return EINVAL;
    callback_follow(future, (struct callback *)continuation, callback_call, callback, arg);
    return 0;
}

int stint_future_remove_continuation(stint_future *future, stint_continuation *continuation)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    if (future == NULL || continuation == NULL)
        return EINVAL;
    struct sti_continuation *record = &((struct callback *)continuation)->continuation;
    return record->task == future ? sti_continuation_remove(record) : EINVAL;
}
