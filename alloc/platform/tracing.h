/* SPDX-License-Identifier: MIT
 *
 * What the rest of the library writes into a trace (stint/observe.h), and how the tracer (observe/) reads it. Events
 * are written by the thread on which they happen, in tasks and in handlers of signals too: no lock, no memory but the
 * thread's ring, no sample point.
 *
 * The ring. One writer: its thread. One reader: the tracer's thread, of which there is one at a time. Records are of
 * one size, the ring holds a power of two of them; head and tail only grow.
 *
 *   writer   room: head - tail < records, by a tail that it remembers, and only when that says full by the tail itself
 *            (acquire: the reader has copied what was there); writes the record; head + 1 (release)
 *   reader   head (acquire: sees the records before it whole); copies them; tail = head (release)
 *
 * A record that finds no room is lost: counted, by the writer. The reader never waits for the writer, nor this one for
 * it. A slice that finds none is lost with all that begin after it until the tail has moved, which is all that is
 * looked at: head + open, up to which room is taken, never falls. The next one that has room is written behind a LOST
 * record, which says how many were lost before it.
 *
 * Handlers. A signal's handler may write in the midst of a write of its own thread. So writing is set around each
 * write, and a handler that finds it set loses its record. That is between a thread and itself: compiler fences are
 * enough. Nothing leaves the code here by a jump: no sample point lies in it, and a handler leaves nobody's frames but
 * a task's own.
 *
 * Slices. A slice that is begun has room for its end from then on: whatever else is written leaves as many records as
 * slices are open. So ends are never lost, and what is read is nested whatever is left out. The writer keeps the keys
 * of those that are open; what ends finds its own there, or was never begun and is nothing. Ends name the depth, so
 * where a thread's ones in between never come (it was ended), the reader ends them with it.
 *
 * Submissions. A submission writes no record: the task carries the number of the thread that submitted it and of the
 * trace. The thread that starts or steals the task writes both with its own record, from which the reader makes the
 * submission as well.
 *
 * Traces. sti_trace_epoch is the number of the one that runs, or 0. A thread that has not written anything in that one
 * forgets which slices are open and begins with a THREAD record, which has the trace's number and the thread's name:
 * the ring goes on to the next owner with the record of the thread (thread.h). The reader ignores what comes before
 * that record: the rest of an earlier trace, and what was written by a thread that had seen the number before it
 * changed. Nobody waits for those when a trace ends: a record more in a ring is harmless, as rings are never freed.
 *
 * tests/models/trace.pml tries every order of this. */
#ifndef STI_ALLOC_PLATFORM_TRACING_H
#define STI_ALLOC_PLATFORM_TRACING_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/task.h>

#include "tally.h"
#include "thread.h"

struct sti_scope_request;

/* --- Which observers want to see scopes, and tasks of pools: bits, mostly none. Their rare paths ask more. Any
 * thread. */

#define STI_OBSERVED_TRACE 1
#define STI_OBSERVED_DEBUG 2   /* scopes */
#define STI_OBSERVED_OVERDUE 4 /* tasks: there is, or was, a pool with overdue_ns */
#define STI_OBSERVED_HOOKED 16 /* tasks: there is, or was, a pool with hooks */
#define STI_OBSERVED_RATE 8    /* scopes: there is, or was, a task with a sample_rate */

extern atomic_uint sti_scopes_observed __attribute__((visibility("hidden")));
extern atomic_uint sti_tasks_observed __attribute__((visibility("hidden")));

static inline bool sti_scopes_are_observed(void)
{
    return __builtin_expect(atomic_load_explicit(&sti_scopes_observed, memory_order_relaxed) != 0, 0);
}

/* The trace that runs; 0: none. */
extern atomic_uint sti_trace_epoch __attribute__((visibility("hidden")));

static inline bool sti_trace_runs(void)
{
    return __builtin_expect(atomic_load_explicit(&sti_trace_epoch, memory_order_relaxed) != 0, 0);
}

/* --- Writing. The calling thread's ring; nothing where no trace runs. What has no clock of its own here is given the
 * time by sti_clock_now that its caller has read anyway; 0: it has not. */

/* A number for the flow from one event to another one, both of which know these. Never 0. */
static inline uint64_t sti_trace_flow(const void *what, uint64_t ns)
{
    return (ns ^ (uint64_t)(uintptr_t)what * UINT64_C(0x9e3779b97f4a7c15)) | 1;
}

enum sti_trace_mark {
    STI_TRACE_WAKE = 1,
    STI_TRACE_STEAL,
    STI_TRACE_TRIPPED,    /* a stint_reason; this and the next three: safe in signal handlers */
    STI_TRACE_DEFERRED,   /* a stint_deferral */
    STI_TRACE_DELIVERED,  /* a stint_on_interrupt */
    STI_TRACE_WARNED,     /* a stint_reason */
    STI_TRACE_LOST,       /* so many in all */
    STI_TRACE_THREAD,     /* the rest is written and read here: first this, */
    STI_TRACE_BEGIN_TASK, /* then what begins, */
    STI_TRACE_BEGIN_FORK,
    STI_TRACE_BEGIN_ROLLBACK,
    STI_TRACE_BEGIN_PARK,
    STI_TRACE_END_TASK, /* then what ends */
    STI_TRACE_END_FORK,
    STI_TRACE_END_ROLLBACK,
    STI_TRACE_END_PARK,
};

/* The submitter of a task: the kernel's number of the thread, which has so many bits at most (PID_MAX_LIMIT), and above
 * it the number of the trace, of which the low bits are enough beside the time of the submission. 0: no trace runs. A
 * thread number of 0: the submission has been written. */
#define STI_TRACE_THREAD_BITS 22
#define STI_TRACE_THREAD_MASK ((1U << STI_TRACE_THREAD_BITS) - 1)

static inline unsigned sti_trace_submitter_in(unsigned epoch)
{
    return (epoch % (UINT32_MAX >> STI_TRACE_THREAD_BITS) + 1) << STI_TRACE_THREAD_BITS;
}

/* Of the calling thread: its own number, in the trace that it was found for; and the submitter of its next task of a
 * pool. */
struct sti_trace_submitters {
    unsigned epoch;
    unsigned own;
    unsigned of_next; /* 0: nobody */
};
extern _Thread_local struct sti_trace_submitters sti_trace_submitters __attribute__((visibility("hidden")));
unsigned sti_trace_begin_submitter(unsigned epoch);

/* The submitter that the calling thread's tasks carry in this trace. */
static inline unsigned sti_trace_submitter(unsigned epoch)
{
    if (__builtin_expect(sti_trace_submitters.epoch != epoch, 0))
        return sti_trace_begin_submitter(epoch);
    return sti_trace_submitters.own;
}

static inline void sti_trace_expect(unsigned submitter)
{
    sti_trace_submitters.of_next = submitter;
}

/* A task is stolen; options: its own, by which its start is found. What it carries from now on. */
unsigned sti_trace_steal(const stint_options *options, uint64_t submitted_ns, unsigned submitter);

/* With a flow that begins there. In which trace it is; 0: it is not. */
unsigned sti_trace_wake(uint64_t ns, uint64_t flow);

/* An interrupt is tripped, deferred or delivered. Safe in signal handlers. */
void sti_trace_interrupt(enum sti_trace_mark mark, int number);

/* Slices. key identifies a slice while it lasts. A task's slice is on its own thread, of which thread is the record. */
void sti_trace_begin_task(struct sti_thread *thread, const void *key, uint64_t ns,
                          const struct sti_scope_request *request);
void sti_trace_end_task(struct sti_thread *thread, const void *key, uint64_t ns, const stint_outcome *outcome);

/* Other slices have a name, or NULL, and a fork's slice has the thread that has forked it, or NULL. At its end, the
 * bytes that a rollback has kept; of parking the flow of the wake-up and the trace in which that began: in another one
 * it has none. */
#define STI_TRACE_ANY UINT_MAX
void sti_trace_begin(enum sti_trace_mark mark, const void *key, uint64_t ns, const char *name,
                     const struct sti_thread *owner);
void sti_trace_end(enum sti_trace_mark mark, const void *key, uint64_t value, unsigned epoch);

/* --- Reading. By the tracer. --- */

#define STI_TRACE_NAME 32
#define STI_TRACE_RECORDS 8192
#define STI_TRACE_OPEN 60 /* slices, one in the other; what lies in more is lost */

struct sti_trace_record {
    uint64_t ns;
    uint8_t mark;
    uint8_t depth; /* of a slice, from 0 on */
    uint8_t reason;
    uint8_t status; /* of the end of a task */
    int32_t number; /* an error, a reason, a rule, a way, a thread's id, a submitter */
    union {
        struct {
            uint64_t flow;      /* 0: none; where there is a submitter, the address of the task's options;
                                   in a LOST record, how many; at the end of a rollback, bytes kept */
            uint64_t number_of; /* the trace, in a THREAD record; where there is a submitter, when it was submitted */
            char name[STI_TRACE_NAME];
        };
        struct {
            uint64_t allocated;
            uint64_t peak;
            uint64_t bytes; /* committed */
            uint64_t queued;
            uint64_t samples;
            uint64_t deferred;
        };
    };
};
_Static_assert(sizeof(struct sti_trace_record) == 64, "a line of the cache");

struct sti_trace_ring {
    _Atomic uint64_t head; /* this and what follows are the writer's */
    _Atomic uint64_t lost; /* to be read by anybody */
    uint64_t known_tail;
    unsigned epoch;
    int id; /* of the thread that it has been begun for */
    unsigned open;
    uint64_t full_at; /* the tail by which the last slice had no room; UINT64_MAX: it had */
    volatile bool writing;
    stint_fn *unnamed;          /* the last function of a task without a name, */
    char place[STI_TRACE_NAME]; /* and where it is */
    const void *keys[STI_TRACE_OPEN];
    _Alignas(64) _Atomic uint64_t tail; /* the reader's */
    unsigned read_epoch;                /* the trace that it has found in it, */
    int read_id;                        /* of this thread */
    unsigned read_open;                 /* slices that have not ended */
    uint64_t read_ns;                   /* the last time */
    uint64_t read_lost;                 /* so many it has told */
    _Alignas(64) struct sti_trace_record records[STI_TRACE_RECORDS];
};

/* A task of this thread need not be begun: it is lost, and counted. Most are where tasks are a flood. */
static inline bool sti_trace_loses_task(const struct sti_thread *thread)
{
    struct sti_trace_ring *ring = atomic_load_explicit(&thread->trace, memory_order_relaxed);
    if (ring == NULL || atomic_load_explicit(&ring->tail, memory_order_relaxed) != ring->full_at)
        return false;
    sti_counter_add_own(&ring->lost);
    return true;
}

/* A slice of this thread may be open: others need not be ended. */
static inline bool sti_trace_has_open(const struct sti_thread *thread)
{
    const struct sti_trace_ring *ring = atomic_load_explicit(&thread->trace, memory_order_relaxed);
    return ring != NULL && ring->open > 0;
}

/* Records of threads that could have no ring. */
extern _Atomic uint64_t sti_trace_homeless __attribute__((visibility("hidden")));

#endif
