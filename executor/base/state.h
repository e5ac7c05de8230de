/* SPDX-License-Identifier: MIT
 *
 * The records of the executor: what a task, a worker and a pool consist of, and the questions that one word of theirs
 * answers. What each part is for, who changes it and in which order is said where its functions are: in the header that
 * is named beside it, or has its name. */
#ifndef STI_EXECUTOR_BASE_STATE_H
#define STI_EXECUTOR_BASE_STATE_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/account.h>
#include <stint/observe.h>
#include <stint/pool.h>
#include <stint/token.h>
#include <sys/queue.h>

#include "alloc/interrupt/forks.h"
#include "alloc/interrupt/signals.h"
#include "alloc/interrupt/token.h"
#include "alloc/meter/account.h"
#include "alloc/platform/limits.h"
#include "alloc/platform/tally.h"
#include "event.h"
#include "queue.h"
#include "split.h"
#include "timers.h"
#include "turns.h"

/* --- The task: task.h. --- */

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

/* A task's turn in a thread's queue (continuation.h). */
struct sti_queued_turn {
    struct sti_queued_turn *next;
    sti_task *task;
    void (*run)(struct sti_queued_turn *turn);
};

/* What a running task is charged to. */
struct sti_bill {
    struct sti_fair_entry *fair_entry; /* NULL: nobody */
    uint64_t charged;                  /* at its beginning, and since */
    unsigned weight;                   /* its account's at its beginning: all of it is charged by that */
};

struct stint_future {
    atomic_int state;
    atomic_uint references;
    atomic_uint continuations; /* this up to first_continuation, last_continuation and drained: continuation.h */
    sti_event woken;           /* signalled when those who wait for it have to look again */
    atomic_uint lock;
    bool is_drained; /* by a drainer; this, the next one, last_continuation and drained: under the lock */
    struct sti_continuation *first_continuation;
    _Atomic(struct sti_worker *) runner; /* who runs it or has run it; NULL: not begun. Release, acquire */
    struct sti_fair_queue *fair_queue;   /* where it waits, if it has an account or a priority; otherwise NULL */
    struct sti_monitor *monitor;         /* that ends it at its deadline while it waits; NULL: it has none */
    bool was_queued_for_slot;            /* it got its slot later than it was submitted (queue_slots.h) */
    bool entered;                        /* its account counts it as running: for the claimant */
    bool counted; /* among the pool's outcomes, or not to be: for whoever has its queue entry, when it has resolved */
    unsigned submitter;   /* in a trace (tracing.h); for the submitter, then the claimant */
    stint_report *report; /* NULL: there is none */
    stint_fn *fn;         /* NULL: a compound future. All before this is 0 in a new task, but for references */
    void *arg;
    const stint_pool *pool;
    uint64_t submitted_ns;
    stint_options options;
    struct sti_continuation **last_continuation; /* where the next one goes; unless there is none */
    const struct sti_continuation *drained;      /* the one that the drainer runs, or has run last */
    sti_task *next_noted;                        /* of those that stint_pool_destroy waits for (farewells.h) */
    struct sti_fair_entry *fair_entry;           /* this and the next one: under the entries' lock */
    TAILQ_ENTRY(stint_future) fair_link;
    struct sti_bill bill; /* once it has been taken out of the fair queue; for the claimant */
    union {
        struct sti_timer timer;      /* for its time, then for its deadline, until it has been claimed */
        struct sti_queued_turn turn; /* its drainer's, once it has resolved (continuation.h) */
    };
    stint_token token;        /* what stint_future_cancel sets; its parent, until resolved, is the options' token */
    struct sti_limits limits; /* as they are now; stint_future_set_budget changes them */
    stint_outcome outcome;
};

static inline void sti_task_offer(sti_task *task)
{
    atomic_store_explicit(&task->state, STI_TASK_QUEUED, memory_order_release);
}

bool sti_task_claim(sti_task *task);
bool sti_task_claim_to_end(sti_task *task, stint_reason reason);

/* The same by the monitor, which has taken its timer out before. */
bool sti_task_mark_ending(sti_task *task, stint_reason reason);

/* For whoever takes out the entry of a task that it has not claimed: count the outcome of one that never starts. True:
 * it is one, or may be. */
bool sti_task_count_unstarted(sti_task *task, sti_counter *outcomes);

/* The limits that it has now. */
static inline stint_budget sti_task_budget(const sti_task *task)
{
    return sti_limits_now(&task->limits, &task->options.budget);
}

static inline bool sti_task_is_queued(sti_task *task)
{
    return atomic_load_explicit(&task->state, memory_order_relaxed) == STI_TASK_QUEUED;
}

/* In the options of a task that its pool has hooks for (state.h); no program can set it. */
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

/* Whether it stands in a queue for a slot. */
static inline bool sti_task_is_due(sti_task *task)
{
    return atomic_load_explicit(&task->state, memory_order_relaxed) == STI_TASK_DUE;
}

static inline bool sti_task_is_delayed(sti_task *task)
{
    return atomic_load_explicit(&task->state, memory_order_acquire) == STI_TASK_DELAYED; /* so it is a sti_delayed */
}

/* --- Where tasks wait: fair_queue.h, queue_slots.h, delays.h. --- */

#define STI_PRIORITIES 3

struct sti_fair_entry;
TAILQ_HEAD(sti_fair_tasks, stint_future);

/* By what the fair queue finds an entry, or the record of an account that has refused some. */
struct sti_fair_key {
    stint_account *account; /* NULL: of none */
    unsigned kind;          /* a stint_priority; or STI_PRIORITIES */
    struct sti_fair_key *chain;
};

/* Those of one priority. */
struct sti_fair_entry_ring {
    struct sti_turns turns; /* of those that are ready */
    struct sti_turns idle;  /* those kept for their time */
    uint64_t now;           /* fair_entry.c has it */
    size_t running;         /* tasks that have begun and are not settled */
    atomic_uint ready;      /* entries; this and the next to be read by anybody */
    _Atomic uint64_t first; /* the time of the first, while any is ready */
};

struct sti_fair_queue {
    stint_pool *pool;
    _Alignas(64) struct sti_fair_entry_ring rings[STI_PRIORITIES]; /* by stint_priority */
    atomic_uint ready;                                             /* entries of any priority */
    atomic_size_t waiting;                                         /* tasks, of those held back too */
    atomic_size_t held;                                            /* of these */
    _Atomic uint64_t plain_time;                                   /* of the plain tasks' entry */
    _Alignas(64) pthread_mutex_t lock;                             /* for all of it */
    struct sti_fair_entry *plain;
    LIST_HEAD(, sti_fair_entry) entries; /* all but that */
    uint64_t typical_cost;               /* nanoseconds; of an entry that is not known yet */
    struct sti_fair_key **table;
    size_t table_size;
    size_t count;
    size_t capacity;
    bool closed;
};

/* From the beginning to the end of what is charged. They nest: what an inner one took is not the outer one's. */
struct sti_stretch {
    uint64_t begin;
    uint64_t inner; /* what inner ones took of it, and what it slept */
    struct sti_bill bill;
    struct sti_stretch *outer; /* NULL: none */
};

#define STI_QUEUE_SLOTS_TABLE 256

struct sti_slot_queue;
struct sti_slot_waiter;

/* Submitters, and tasks that are due. */
struct sti_slot_kind {
    bool due;

    /* Under the lock. It stands in its queue from now on. NULL: nothing has to be done. */
    void (*stands)(struct sti_slot_waiter *waiter);

    /* Put its task where it is to wait: 0; EAGAIN, EDQUOT: there is no slot for it; ESHUTDOWN, ENOMEM: there never will
     * be; ECANCELED: somebody has ended it. */
    int (*put)(stint_pool *pool, struct sti_slot_waiter *waiter);

    /* It is told ESHUTDOWN. False: somebody has ended it. NULL: nobody can. */
    bool (*refuse)(struct sti_slot_waiter *waiter);

    /* With nothing held: what came of it, unless there was no slot or somebody has ended it. NULL: the event is
     * signalled, under the lock. */
    void (*answer)(struct sti_slot_waiter *waiter, int error);
};

struct sti_slot_waiter {
    const struct sti_slot_kind *kind;
    TAILQ_ENTRY(sti_slot_waiter) link; /* in its queue */
    struct sti_slot_queue *queue;      /* NULL: it is in none */
    sti_task *task;
    stint_future **future; /* of a submitter; this and the event */
    atomic_int answer;     /* 0 or an errno value */
    sti_event answered;
    struct sti_slot_waiter *next_answered;
};
TAILQ_HEAD(sti_slot_waiters, sti_slot_waiter);

/* Those of one account and priority. */
struct sti_slot_queue {
    stint_account *account; /* kept alive by their tasks */
    stint_priority priority;
    bool due;    /* they are; or submitters */
    bool capped; /* it was refused a slot by its account's maximum */
    struct sti_slot_waiters waiters;
    TAILQ_ENTRY(sti_slot_queue) ring;
    struct sti_slot_queue *chain; /* in the table */
};
TAILQ_HEAD(sti_slot_queues, sti_slot_queue);

struct sti_queue_slots {
    _Alignas(64) atomic_uint queue; /* waiters */
    atomic_uint plain_queued;       /* of these, with plain tasks */
    atomic_uint fillers;            /* threads that are not done with the pool */
    pthread_mutex_t lock;           /* for the rest */
    struct sti_slot_queue plain[2]; /* submitters, and those that are due */
    struct sti_slot_queues rings[2];
    struct sti_slot_queues capped;
    struct sti_slot_queue *table[STI_QUEUE_SLOTS_TABLE];
    struct sti_slot_waiter *answered; /* those that were due */
    bool closed;
};

struct sti_delays {
    pthread_mutex_t lock; /* for the rest */
    bool closed;
    struct sti_delayed *all;
};

/* --- What a pool does at a time, and for tasks that ended unstarted: monitor.h, overdue.h, farewells.h. --- */

enum sti_timer_kind {
    STI_TIMER_EXPIRY,  /* of a task that is QUEUED: its deadline, at which it resolves */
    STI_TIMER_START,   /* of one that is DELAYED: its time, at which it starts (delays.h) */
    STI_TIMER_OVERDUE, /* of one that runs: its deadline has long passed (overdue.h) */
};

struct sti_monitor {
    struct sti_watch watch;
    atomic_bool watched; /* the watch has been told of this, or is about to be */
    _Alignas(64) pthread_mutex_t lock;
    struct sti_timers timers;
    struct sti_queued_turn *turns; /* what follows; this and the rest under the lock, too */
    struct sti_queued_turn *turns_end;
    sti_event handed; /* signalled when there is more of it, or the end */
    pthread_t thread; /* that runs it */
    bool has_thread;
    bool ending;
};

struct sti_overdue_entry {
    struct sti_timer timer; /* first, so that a timer is its entry */
    struct sti_worker *worker;
    sti_task *task;
    uint64_t started;
    uint64_t deadline;
    bool given_up; /* its worker's place */
    bool replaced; /* and somebody has it */
};

struct sti_farewells {
    pthread_mutex_t lock;
    sti_task *first; /* noted, each with a reference */
    sti_task **end;
};

/* --- Workers: worker.h; their sleep: park.h, substitute.h; what they steal: fork.h. --- */

#define STI_SUBSTITUTES_DEFAULT 64
#define STI_SUBSTITUTES_MAX 1024

#define STI_WORKERS_MAX 1024
#define STI_SLOTS_MAX (STI_WORKERS_MAX + STI_SUBSTITUTES_MAX)

struct sti_lot {
    _Alignas(64) atomic_uint searching;
    _Atomic uint64_t parked[STI_SLOTS_MAX / 64];
    _Atomic uint64_t awaiting[STI_SLOTS_MAX / 64]; /* workers that sleep in a join */
};

struct sti_substitutes {
    pthread_mutex_t lock;
    unsigned max;
    atomic_uint slots;
    atomic_uint active;
    atomic_bool ending;
    struct sti_worker *retired;
    struct sti_worker *vacant;
    atomic_uint asleep; /* this and the next three to be read by anybody: workers that have given their place up in
                         * the midst of a task */
    atomic_uint substituting; /* substitutes that are not retired */
    sti_counter replaced;     /* how often a substitute took a sleeper's place */
    sti_counter unreplaced;   /* how often none could be had, although a place was free */
    unsigned stuck;           /* under the lock of deadlock.c: sleepers that nobody will wake */
};

/* A guess, to be taken behind a fence; there is one behind what is stored as well. */
static inline bool sti_substitutes_all_sleep(const struct sti_substitutes *substitutes)
{
    return atomic_load_explicit(&substitutes->active, memory_order_relaxed) == 0;
}

/* A subtask in the hands of its thief. */
struct sti_stolen {
    struct sti_offer *offer;  /* NULL: none */
    struct sti_worker *owner; /* that waits for it */
};

/* One for each task on a worker's stack: the one its loop runs, and above it those that are run while it waits. A
 * subtask of another worker's task has one too: a waiter for that task in it waits for itself. */
struct sti_frame {
    const sti_task *task;
    struct sti_frame *below;
    bool stolen; /* a subtask of it: the task itself is run by another */
};

struct sti_worker {
    struct sti_deque deque;
    struct sti_split split;
    _Alignas(64) sti_event wake; /* others write these; what follows is the worker's own */
    _Atomic uint32_t calls;      /* these three: substitute.h */
    atomic_bool asked;
    atomic_bool idle;
    _Atomic uint64_t called_ns; /* when it was last told to get up, by sti_clock_now (overdue.c) */
    _Atomic uint64_t woken_by;  /* the flow of that, */
    atomic_uint woken_in;       /* in this trace; 0: in none */
    sti_event helped;           /* for a join that waits: the subtask has ended, or something was shared */
    stint_pool *pool;
    _Atomic(struct sti_frame *) running; /* innermost; others look at it as visits.h says */
    _Atomic(struct sti_thread *) record; /* of the thread, on the lower layer; NULL: there was no memory */
    unsigned replaced;           /* tasks on its stack that are overdue (substitute.h); under the substitutes' lock */
    unsigned index;              /* from the pool's number of workers on: a substitute */
    unsigned turn;               /* counts the tasks it took, from wherever */
    unsigned plain_turn;         /* counts looks for plain ones */
    unsigned next_victim;        /* whose deque comes next, out of turn */
    uint32_t random;             /* never 0 */
    unsigned buried;             /* tasks run while waited for, whose entries may still lie in the deque */
    struct sti_bill bill;        /* of the plain task that it has claimed and is about to run */
    uint64_t clock;              /* when it was read a moment ago; 0: it was not */
    struct sti_stretch *stretch; /* the innermost that is being charged; NULL: none is */
    struct sti_forks below;      /* how the lower layer sees the split deque */
    pthread_t thread;
    const char *stack; /* of the thread: its lowest address; NULL: not known */
    size_t stack_size;
    uint64_t idled_since;            /* it has been parked since it began its last task, and when last; 0: it has not */
    struct sti_sleeper *slept;       /* under the lock of deadlock.c: it has slept for long */
    unsigned asleep;                 /* how often it has fallen asleep in the midst of a task (substitute.h), */
    uint64_t slept_since;            /* and when it did first */
    struct sti_worker *next_retired; /* or vacant; this and the next two under the substitutes' lock */
    bool is_vacant;                  /* its thread is ending, or has ended, */
    bool is_joined;                  /* and has been joined */
    _Alignas(64) struct sti_tally tally; /* this and what follows is written by the worker alone, and read by anybody */
    sti_counter tasks;                   /* that it has begun */
    sti_counter steals;                  /* tasks that it took from other workers' deques */
    sti_counter forks;                   /* and subtasks of other workers' tasks */
    sti_counter parks;
    sti_counter parked_since; /* by sti_clock_now; 0: it is not parked */
    sti_counter neglected;    /* tasks that it began, which waited although some worker was idle (overdue.c) */
    sti_counter longest_neglect;
};

void sti_worker_init(struct sti_worker *worker, stint_pool *pool, unsigned index);

/* The calling thread's worker, if it is one; and if it is one of this pool's. Otherwise NULL. */
extern _Thread_local struct sti_worker *sti_worker_own; /* to be read by the next two */

static inline struct sti_worker *sti_worker_current(void)
{
    return sti_worker_own;
}

static inline struct sti_worker *sti_worker_of(const stint_pool *pool)
{
    struct sti_worker *worker = sti_worker_own;
    return worker != NULL && worker->pool == pool ? worker : NULL;
}

static inline const struct sti_frame *sti_worker_frame(const struct sti_worker *worker)
{
    return atomic_load_explicit(&worker->running, memory_order_relaxed);
}

static inline void sti_worker_enter(struct sti_worker *worker, struct sti_frame *frame, const sti_task *task,
                                    bool stolen)
{
    struct sti_frame *below = atomic_load_explicit(&worker->running, memory_order_relaxed);
    *frame = (struct sti_frame){ .task = task, .below = below, .stolen = stolen };
    atomic_store_explicit(&worker->running, frame, memory_order_release);
}

/* seq_cst, and an exchange: visits.h. To be followed by sti_visit_let_pass, before the frame is gone. */
static inline void sti_worker_leave(struct sti_worker *worker, const struct sti_frame *frame)
{
    atomic_exchange_explicit(&worker->running, frame->below, memory_order_seq_cst);
}

/* What it is running; NULL: nothing. */
static inline const sti_task *sti_worker_task(const struct sti_worker *worker)
{
    const struct sti_frame *frame = sti_worker_frame(worker);
    return frame != NULL ? frame->task : NULL;
}

/* --- The pool: pool.h, shutdown.h. --- */

/* Only ever grows. OPEN accepts tasks; DRAINING and CANCELLING are what stint_pool_shutdown was asked for. */
enum sti_pool_phase {
    STI_POOL_OPEN,
    STI_POOL_DRAINING,
    STI_POOL_CANCELLING,
};

/* What a pool is called where its numbers are written: its name, and where another on the list has that, "#" and a
 * number. */
#define STI_POOL_LABEL_SIZE (STI_LABEL_SIZE + sizeof "#4294967295")

/* The calling thread's affinity mask. */
struct sti_processors {
    cpu_set_t *mask;
    size_t size;    /* of the mask, in bytes */
    unsigned count; /* of processors in it */
};

#define STI_THREAD_NAME_SIZE 16

struct sti_worker;

/* For a pool whose workers run its tasks elsewhere: behind a wall (wall/walled.h). */
struct sti_pool_hooks {
    /* For the claimant: as sti_task_run. */
    void (*run)(struct sti_worker *worker, sti_task *task);

    /* The task has resolved, and all who followed have been told; perhaps again. Under the task's lock. */
    void (*settle)(sti_task *task);

    /* The worker that has run it comes here when it has resolved, and who waited has been woken. */
    void (*tidy)(struct sti_worker *worker, sti_task *task);
};

struct stint_pool {
    atomic_int phase;
    unsigned worker_count;
    struct sti_worker *workers;       /* and room for the substitutes: sti_pool_slots */
    struct sti_processors processors; /* the workers of a pinned pool have one each; mask NULL: it is not pinned */
    stint_pool_options options;       /* that it was made with; its name is the next but one */
    stint_token stop;                 /* set when cancelling; every running task's scope looks at it */
    char name[STI_THREAD_NAME_SIZE];
    char label[STI_POOL_LABEL_SIZE]; /* set as it goes on the list */
    struct sti_child_masks signals;  /* of its threads; set before they start */

    struct sti_lot lot;
    _Alignas(64) struct sti_queue queue;
    struct sti_fair_queue fair_queue;
    struct sti_queue_slots queue_slots;
    struct sti_monitor monitor;
    struct sti_delays delays;
    struct sti_farewells farewells;
    sti_counter outcomes[STI_REASONS];  /* of tasks that never began: counted by any thread */
    stint_pool *next_pool;              /* in the list of all (pools.h) */
    const struct sti_pool_hooks *hooks; /* NULL: its workers run tasks as all do */
    _Alignas(64) struct sti_substitutes substitutes;

    /* The end: each worker counts itself out of alive as the last thing it does; a thread that waits for 0 then joins
     * them all, once. Or nobody waits any more (abandoned, set while alive is not 0): then the last one frees the
     * pool. */
    _Alignas(64) atomic_uint alive;
    atomic_bool abandoned;
    sti_event ended;
    pthread_mutex_t joining;
    bool joined; /* under joining */
};

static inline bool sti_pool_is_open(const stint_pool *pool)
{
    return atomic_load_explicit(&pool->phase, memory_order_acquire) == STI_POOL_OPEN;
}

/* How many of the pool's workers are threads, or were: its own, then substitutes. For whoever looks through them
 * all. */
static inline unsigned sti_pool_slots(const stint_pool *pool)
{
    return atomic_load_explicit(&pool->substitutes.slots, memory_order_acquire);
}

#endif
