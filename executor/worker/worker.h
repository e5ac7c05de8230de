/* SPDX-License-Identifier: MIT
 *
 * The worker: a thread of the pool, its deque, and what it is running. */
#ifndef STI_EXECUTOR_WORKER_WORKER_H
#define STI_EXECUTOR_WORKER_WORKER_H

#include <pthread.h>

#include "alloc/interrupt/forks.h"
#include "executor/base/event.h"
#include "executor/fork/fork.h"
#include "executor/fork/split.h"
#include "executor/pool/pools.h"
#include "executor/queue/fair_queue.h"
#include "executor/queue/queue.h"
#include "executor/task/task.h"

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
    _Atomic(struct sti_frame *) running; /* innermost; others look at it as visit.h says */
    _Atomic(struct sti_thread *) record; /* of the thread, on the ground floor; NULL: there was no memory */
    unsigned replaced;      /* tasks on its stack that are overdue (substitute.h); under the substitutes' lock */
    unsigned index;         /* from the pool's number of workers on: a substitute */
    unsigned turn;          /* counts the tasks it took, from wherever */
    unsigned plain_turn;    /* counts looks for plain ones */
    unsigned next_victim;   /* whose deque comes next, out of turn */
    uint32_t random;        /* never 0 */
    unsigned buried;        /* tasks run while waited for, whose entries may still lie in the deque */
    struct sti_bill bill;   /* of the plain task that it has claimed and is about to run */
    uint64_t clock;         /* when it was read a moment ago; 0: it was not */
    uint64_t inner;         /* of the stretch that is being charged: what was charged to others, or slept */
    struct sti_forks below; /* how the ground floor sees the split deque */
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

/* The body of the thread; its argument is the worker. */
void *sti_worker_main(void *worker);

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

/* The functions below: by the worker's own thread. */

/* In the child of a fork(2): in part of a process it is no worker. */
void sti_worker_in_child(void);

/* For who steals: the pool's other workers, once each, beginning anywhere. */
struct sti_victims {
    unsigned next;
    unsigned left;
    unsigned slots;
};
struct sti_victims sti_victims_of(struct sti_worker *worker);

/* NULL: all have been. */
struct sti_worker *sti_victims_next(struct sti_victims *victims, const struct sti_worker *worker);

static inline void sti_worker_enter(struct sti_worker *worker, struct sti_frame *frame, const sti_task *task,
                                    bool stolen)
{
    struct sti_frame *below = atomic_load_explicit(&worker->running, memory_order_relaxed);
    *frame = (struct sti_frame){ .task = task, .below = below, .stolen = stolen };
    atomic_store_explicit(&worker->running, frame, memory_order_release);
}

/* seq_cst, and an exchange: visit.h. To be followed by sti_visit_let_pass, before the frame is gone. */
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

uint32_t sti_worker_random(struct sti_worker *worker);

/* Put an offered task in the deque, or, when that is full, in the submission queue. False: both are full. */
bool sti_worker_put(struct sti_worker *worker, sti_task *task);

/* Whether the task is on this thread's stack: whoever waits for it here waits for itself. */
bool sti_worker_is_inside(const struct sti_worker *worker, const sti_task *task);

/* Run a claimed task whose entry is still in some queue. */
void sti_worker_run_awaited(struct sti_worker *worker, sti_task *task);

#endif
