/* SPDX-License-Identifier: MIT
 *
 * What the rest of the library writes into a trace (stint/trace.h), and how the tracer (trace/) reads it. Events are
 * written by the thread on which they happen, in tasks and in handlers of signals too: no lock, no memory but the
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
 * it.
 *
 * Handlers. A signal's handler may write in the midst of a write of its own thread. So writing is set around each, and
 * whoever finds it set loses its record. That is between a thread and itself: compiler fences are enough. Nothing
 * leaves the code here by a jump: no sample point lies in it, and a handler leaves nobody's frames but a task's own.
 *
 * Slices. A slice that is begun has room for its end from then on: whatever else is written leaves as many records as
 * slices are open. So ends are never lost, and what is read is nested whatever is left out. The writer keeps the keys
 * of those that are open; what ends finds its own there, or was never begun and is nothing. Ends name the depth, so
 * where a thread's ones in between never come (it was ended), the reader ends them with it.
 *
 * Traces. sti_trace_epoch is the number of the one that runs, or 0. A thread that has not written anything in that one
 * forgets which slices are open and begins with a THREAD record, which has the number and says who it is: the ring goes
 * on to the next owner with the record of the thread (thread.h). The reader ignores what comes before that record: the
 * rest of an earlier trace, and what was written by a thread that had seen the number before it changed. Nobody waits
 * for those when a trace ends: a record more in a ring is harmless, as rings are never freed.
 *
 * tests/models/trace.pml tries every order of this. */
#ifndef STI_ALLOC_BASE_TRACING_H
#define STI_ALLOC_BASE_TRACING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/task.h>

#include "tally.h"

struct sti_thread;

/* --- Who looks at scopes, and at tasks of pools: bits, mostly none. Their rare paths ask more. Any thread. */

#define STI_OBSERVED_TRACE 1
#define STI_OBSERVED_DEBUG 2   /* scopes */
#define STI_OBSERVED_OVERDUE 4 /* tasks: there is, or was, a pool with overdue_ns */
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
    STI_TRACE_SUBMIT = 1,
    STI_TRACE_WAKE,
    STI_TRACE_STEAL,
    STI_TRACE_TRIPPED,    /* a stint_reason; this and the next two: safe in signal handlers */
    STI_TRACE_DEFERRED,   /* a stint_deferral */
    STI_TRACE_DELIVERED,  /* a stint_on_interrupt */
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

/* Of these marks, with a flow that begins there. In which trace it is; 0: it is not. */
unsigned sti_trace_submission(uint64_t ns, uint64_t flow);
unsigned sti_trace_wake(uint64_t ns, uint64_t flow);

/* What follows is told in which trace its flow began: in another one it has none. */

/* With one that goes through it. */
void sti_trace_steal(uint64_t flow, unsigned epoch);

/* An interrupt is tripped, deferred or delivered. Safe in signal handlers. */
void sti_trace_interrupt(enum sti_trace_mark mark, int number);

/* The thread's next task has this flow that ends in it; 0: none. */
void sti_trace_expect(uint64_t flow, unsigned epoch);

/* Slices; key: who it is, while it lasts. */
void sti_trace_begin_task(const void *key, uint64_t ns, const char *name, stint_fn *fn);
void sti_trace_end_task(const void *key, uint64_t ns, const stint_outcome *outcome);
void sti_trace_begin_rollback(const void *key, uint64_t ns, const char *name);
void sti_trace_end_rollback(const void *key, size_t kept);
void sti_trace_begin_fork(const void *key, const struct sti_thread *owner, const char *name);
void sti_trace_end_fork(const void *key);
void sti_trace_begin_park(const void *key);
void sti_trace_end_park(const void *key, uint64_t flow, unsigned epoch);

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
    int32_t number; /* an error, a reason, a rule, a way, a thread's id */
    union {
        struct {
            uint64_t flow;      /* 0: none */
            uint64_t number_of; /* the trace, in a THREAD record */
            char name[STI_TRACE_NAME];
        };
        struct {
            uint64_t allocated;
            uint64_t peak;
            uint64_t bytes; /* committed, or kept */
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
    uint64_t flow;       /* of the next task, */
    unsigned flow_epoch; /* in this trace */
    unsigned epoch;
    int id; /* of the thread that it has been begun for */
    unsigned open;
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

/* Records of threads that could have no ring. */
extern _Atomic uint64_t sti_trace_homeless __attribute__((visibility("hidden")));

#endif
