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
#include <stint/context.h>
#include <stint/pool.h>
#include <stint/report.h>
#include <string.h>
#include <sys/queue.h>

#include "alloc/base/clock.h"
#include "alloc/base/limits.h"
#include "alloc/base/process.h"
#include "alloc/base/thread.h"
#include "alloc/base/tracing.h"
#include "alloc/interrupt/token.h"
#include "alloc/scope/context.h"
#include "alloc/scope/scope.h"
#include "executor/base/event.h"
#include "executor/pool/monitor.h"
#include "executor/pool/pools.h"

typedef struct stint_future sti_task;

enum sti_task_state {
    STI_TASK_NEW,
    STI_TASK_QUEUED,
    STI_TASK_CLAIMED,
    STI_TASK_RESOLVED,
    STI_TASK_DELAYED, /* this and the next one before it is QUEUED: delays.h */
    STI_TASK_DUE,
    STI_TASK_ENDING, /* plus a stint_reason: claimed by a thread that ends it unstarted */
};

struct sti_continuation;
struct sti_monitor;
struct sti_fair_entry;
struct sti_fair_queue;
struct sti_worker;

/* A task's turn in a thread's line (continuation.h). */
struct sti_line_turn {
    struct sti_line_turn *next;
    sti_task *task;
    void (*run)(struct sti_line_turn *turn);
};

struct stint_future {
    atomic_int state;
    atomic_uint references;
    atomic_uint continuations; /* this up to first_continuation, last_continuation and told: continuation.h */
    sti_event woken;           /* signalled when its waiters have to look again */
    atomic_uint lock;
    bool is_told; /* by a drainer; this, the next one, last_continuation and drained: under the lock */
    struct sti_continuation *first_continuation;
    _Atomic(struct sti_worker *) runner; /* the worker that runs it or has run it; NULL: not begun. Release, acquire */
    struct sti_fair_queue *fair_queue;   /* where it waits, if it has an account or a priority; otherwise NULL */
    struct sti_monitor *monitor;         /* that ends it at its deadline while it waits; NULL: it has none */
    bool stood_in_line;                  /* it got its slot later than it was submitted (queue_slots.h) */
    bool entered;                        /* its account counts it as running: for the claimant */
    bool counted; /* among the pool's outcomes, or not to be: decided by the thread that has its queue entry, when it
                     has resolved */
    unsigned submitter;   /* in a trace (tracing.h); for the submitter, then the claimant */
    stint_report *report; /* NULL: there is none */
    stint_fn *fn;         /* NULL: a compound future. All before this is 0 in a new task, but for references */
    void *arg;
    const stint_pool *pool;
    uint64_t submitted_ns;
    stint_options options;
    struct sti_continuation **last_continuation; /* where the next one goes; unless there is none */
    const struct sti_continuation *told;         /* the one that the drainer runs, or has run last */
    sti_task *next_noted;                        /* of those that stint_pool_destroy waits for (shutdown.h) */
    struct sti_fair_entry *fair_entry;           /* this and the next one: under the entries' lock */
    TAILQ_ENTRY(stint_future) fair_link;
    uint64_t charged; /* to its entry as it began; for the claimant */
    union {
        struct sti_timer timer;    /* for its time, then for its deadline, until it has been claimed */
        struct sti_line_turn turn; /* its drainer's, once it has resolved (continuation.h) */
    };
    stint_token token;        /* what stint_future_cancel sets; its parent, until resolved, is the options' token */
    struct sti_limits limits; /* as they are now; stint_future_set_budget changes them */
    stint_outcome outcome;
};

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

static inline void sti_task_offer(sti_task *task)
{
    atomic_store_explicit(&task->state, STI_TASK_QUEUED, memory_order_release);
}

bool sti_task_claim(sti_task *task);
bool sti_task_claim_to_end(sti_task *task, stint_reason reason);

/* The same by the monitor, which has taken its timer out before. */
bool sti_task_mark_ending(sti_task *task, stint_reason reason);

/* For the claimant: run the task to its outcome in a scope of its own, and count that; sti_task_resolve is to follow.
 * The second function gives it an outcome without a start. */
void sti_task_run(sti_task *task, const stint_token *stop, struct sti_tally *tally);
void sti_task_end_unstarted(sti_task *task, stint_reason reason);

/* For the claimant, when the outcome is written: this is the moment at which the future resolves. */
void sti_task_resolve(sti_task *task);

/* For a thread that takes out the entry of a task that it has not claimed: count the outcome of a task that never
 * starts. True: it is one, or may be. */
bool sti_task_count_unstarted(sti_task *task, sti_counter *outcomes);

/* Count a task that its claimant is to resolve: the task never starts, and has no entry that a worker would take
 * out. */
void sti_task_count_ending(sti_task *task, stint_reason reason, sti_counter *outcomes);

/* The task, which has not resolved, never starts: count that for its account. By its claimant. */
void sti_task_count_labelled(const sti_task *task, stint_reason reason);

/* The limits that it has now. */
static inline stint_budget sti_task_budget(const sti_task *task)
{
    return sti_limits_now(&task->limits, &task->options.budget);
}

static inline bool sti_task_is_queued(sti_task *task)
{
    return atomic_load_explicit(&task->state, memory_order_relaxed) == STI_TASK_QUEUED;
}

/* In the options of a task that its pool has hooks for (pool_state.h); no program can set it. */
#define STI_OPTIONS_HOOKED (1U << 30)

static inline bool sti_task_is_hooked(const sti_task *task)
{
    return (task->options.flags & STI_OPTIONS_HOOKED) != 0;
}

static inline bool sti_task_is_compound(const sti_task *task)
{
    return task->fn == NULL;
}

static inline bool sti_task_is_resolved(const sti_task *task)
{
    return atomic_load_explicit(&task->state, memory_order_acquire) == STI_TASK_RESOLVED;
}

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
