/* SPDX-License-Identifier: MIT
 *
 * The task, from its submission to its outcome. A task is one block of memory, and is also the stint_future that the
 * caller holds.
 *
 *   NEW ----> QUEUED ----> CLAIMED ----> RESOLVED
 *    offer         claim         resolve
 *
 *   offer    by the submitter, before the task enters a queue. Release: the thread that claims it sees it whole, and
 *            all that the submitter had written before.
 *   claim    a compare-and-swap, so one thread wins: a worker that found the task in a queue, a task that waits for it
 *            and runs it itself, or a thread that ends it unstarted (stint_future_cancel, a shutdown). Acquire.
 *            An ending thread leaves the reason in the state, for a worker that meets the entry before the task has
 *            resolved.
 *   resolve  by the thread that claimed it, once the outcome is written. Release: a thread that then reads RESOLVED
 *            (acquire) may read the outcome, which never changes again.
 *
 * A queue's entry is only a hint that there may be something to claim. A claim elsewhere leaves the entry where it is;
 * the worker that takes it out later finds the state past QUEUED and drops it.
 *
 * What waits until it has resolved, and what is to happen then, is in continuations: continuation.h.
 *
 * References: one for the queue's entry, given back by the thread that takes it out and is done with the task; one for
 * the caller's future; one for each compound future that it is a member of. The last one frees the block. The task's
 * pool is only ever compared: futures outlive pools.
 *
 * A compound future (compound.h) is such a block too, with no function: it is CLAIMED from the beginning and never
 * queued.
 *
 * Any thread, unless a function says otherwise. */
#ifndef STI_EXECUTOR_TASK_TASK_H
#define STI_EXECUTOR_TASK_TASK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stint/account.h>
#include <stint/observe.h>
#include <stint/pool.h>
#include <stint/token.h>
#include <string.h>
#include <sys/queue.h>

#include "alloc/interrupt/token.h"
#include "alloc/platform/clock.h"
#include "alloc/platform/limits.h"
#include "alloc/platform/process.h"
#include "alloc/platform/thread.h"
#include "alloc/scope/context.h"
#include "executor/base/state.h"

/* A NEW task with both its references, in a block of so many bytes, or NULL. */
sti_task *sti_task_create_sized(size_t size, const stint_pool *pool, stint_fn *fn, void *arg,
                                const stint_options *options);

void sti_task_retain(sti_task *task);

/* The same before anybody else has seen it: for a thread that goes on with it when it has been put where it may run,
 * and release its own future. */
static inline void sti_task_retain_unseen(sti_task *task)
{
    atomic_store_explicit(&task->references, atomic_load_explicit(&task->references, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

void sti_task_release(sti_task *task);

/* Give one back. True: it was the last, and the block is the caller's to free. */
static inline bool sti_task_give_back(sti_task *task)
{
    /* acq_rel: the last one sees all that the others did with the task before it frees it. */
    return atomic_fetch_sub_explicit(&task->references, 1, memory_order_acq_rel) == 1;
}

void sti_task_free(sti_task *task);

/* Free a task that nobody else has seen. */
void sti_task_discard(sti_task *task);

/* For the claimant: run the task to its outcome in a scope of its own, and count that; sti_task_resolve is to follow.
 * The second function gives it an outcome without a start. */
void sti_task_run(sti_task *task, const stint_token *stop, struct sti_tally *tally);
void sti_task_end_unstarted(sti_task *task, stint_reason reason);

/* For the claimant, when the outcome is written: this is the moment at which the future resolves. */
void sti_task_resolve(sti_task *task);

/* By its claimant, which is to resolve it: it never starts, and has no entry that somebody would take out. */
void sti_task_count_ending(sti_task *task, stint_reason reason, sti_counter *outcomes);

/* The task, which has not resolved, never starts: count that for its account. By its claimant. */
void sti_task_count_labelled(const sti_task *task, stint_reason reason);

/* --- Making a task, as a part of the one function that does it most often (submit.c). What is written is what somebody
 * reads before it is written again. Any thread. */

/* Hides that these options are zeros: the compiler would write them a word at a time. */
static inline const stint_options *sti_no_limits(void)
{
    static const stint_options none = STINT_OPTIONS_INIT;
    const stint_options *hidden = &none;
    __asm__("" : "+r"(hidden));
    return hidden;
}

/* A NEW task with both its references, in a block of so many bytes, or NULL. thread: sti_thread_metered, whose context
 * is the task's unless it has one of its own. */
static inline __attribute__((always_inline)) sti_task *sti_task_create(size_t size, const stint_pool *pool,
                                                                       stint_fn *fn, void *arg,
                                                                       const stint_options *options,
                                                                       const struct sti_thread *thread)
{
    sti_task *task = sti_process_malloc(size);
    if (__builtin_expect(task == NULL, 0))
        return NULL;
    memset(task, 0, offsetof(sti_task, fn)); /* NEW; nothing follows it */
    atomic_init(&task->references, 2);
    task->fn = fn;
    task->arg = arg;
    task->pool = pool;
    task->submitted_ns = sti_clock_now();
    task->options = options != NULL ? *options : *sti_no_limits();
    task->timer.link = NULL;
    sti_limits_init(&task->limits);
    task->outcome.payload = NULL;
    sti_token_init(&task->token, task->options.token);
    if (__builtin_expect(task->options.account != NULL, 0))
        stint_account_retain(task->options.account);
    if (__builtin_expect(task->options.context != NULL, 0))
        stint_context_retain(task->options.context);
    else if (thread != NULL && __builtin_expect(sti_context_of(thread->scope) != NULL, 0))
        task->options.context = stint_context_retain(sti_context_of(thread->scope));
    return task;
}

#endif
