/* SPDX-License-Identifier: MIT
 *
 * The record of a thread that runs scopes: its meter, its innermost scope, its warm heap. Only its thread touches it,
 * but for the limit, into which anybody may store 0.
 *
 * The handshake. In many places of this library two sides first say something and then look at what the other has said:
 *
 *   one side:   stores its own word (seq_cst) ... then loads the other's (seq_cst)
 *   the other:  stores its own word (seq_cst) ... then loads the one's (seq_cst)
 *
 * At least one of them sees what the other has stored. For all four are in one total order (C11 7.17.3). If the one's
 * load does not see the other's store it comes before it there; so does the one's store, which comes before its load;
 * and behind the other's store comes its load, which therefore sees what the one has stored, or what was stored there
 * later. Weaker orders do not do: then each store may still be on its way when the other side loads (store buffering;
 * x86-64 does that too), and both miss each other. Dekker's mutual exclusion rests on the same argument.
 *
 * A seq_cst read-modify-write is as good as either access. So is a seq_cst fence between store and load, on both sides,
 * whatever the orders of these: fences are in the same total order, and the load behind the later one sees the store
 * before the earlier one. Everything else that is called a handshake says only which words these are, and why what may
 * be stored there later is as good.
 *
 * Requesting a sample is one whose second half is a store. A record is made at a thread's first scope, put on a list
 * that only grows, and handed to another thread when its own has ended. So an asker walks the list without a lock, in a
 * signal handler too, and can never reach freed memory; to request one of a thread in vain costs it one sample point.
 *
 *   owner:  store limit (seq_cst) ... load flags (seq_cst)
 *   asker:  store flag  (seq_cst) ... store 0 into limit (seq_cst)
 *
 * All four are in one total order. Either the owner's load comes after the asker's flag store, and it sees the flag; or
 * it comes before, then so does the owner's limit store before the asker's 0, the 0 stays, and the next allocation is a
 * sample point. A record that the asker does not find is no exception: it is put on the list by a seq_cst
 * read-modify-write, and the list is read by a seq_cst load behind the flag's store. So whoever makes a record behind
 * that load looks at the flags behind the flag's store.
 *
 * Between its flag and its 0 the asker counts (seq_cst). A thread that reads the count before the flags (both seq_cst),
 * and finds none of them set, need not look at them again until the count has changed: a flag that the thread did not
 * see is counted later. */
#ifndef STI_ALLOC_PLATFORM_THREAD_H
#define STI_ALLOC_PLATFORM_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stint/task.h>

#include "backend.h"
#include "clock.h"
#include "sampling.h"
#include "tally.h"

struct sti_forks;
struct sti_heap;
struct sti_share;
struct sti_nursery;
struct sti_quarantine;
struct stint_report;
struct sti_scope;
struct sti_registers;
struct sti_trace_ring;

struct sti_thread {
    uint64_t used;                 /* bytes charged on this thread; only differences count */
    _Atomic uint64_t limit;        /* an allocation that takes used beyond it is a sample point */
    sti_backend_theap *allocating; /* of the innermost scope's heap; NULL: it has none */
    bool may_throw;                /* what its code has called here may, as far as a compiler knows (unwind.h) */
    size_t small;                  /* bytes of the blocks that it is the quickest for; 0 where there is none */
    struct sti_scope *scope;       /* innermost */
    uint64_t memory_check;         /* value of used beyond which what the scopes hold must be measured */
    struct sti_nursery *nursery;   /* where young scopes allocate */
    struct sti_heap *warm;         /* an empty heap for the next scope */
    struct sti_heap *libc;         /* one for what libc allocates in it, with what that has left there (libc_heap.h) */
    struct sti_heap *retired;      /* heaps with blocks of tasks that ended Ok, the newest first */
    size_t retired_count;
    struct sti_heap **retired_next; /* from there on they are looked at; NULL: from the first */
    int id;                         /* the kernel's, of the owner */
    atomic_bool owned;              /* by a living thread */
    atomic_bool asked;              /* a preemption signal has been sent and not been taken yet (signals.c); */
    _Atomic uint64_t ask_at;        /* before this, by sti_clock_now, the watch sends no other */
    _Atomic uint64_t next_deadline; /* when its scopes have to be looked at: watch.h */
    bool hides_deadlines;           /* and it is not of those below a detached one, whose return looks at them */
    uint64_t deadline_interval;     /* bytes from one look at the clock to the next */
    uint64_t last_tick;             /* what it showed */
    _Atomic uint64_t held;          /* this and the next four for the choice of a victim (global.c): with a tag */
    _Atomic uint64_t started;       /* when its task began; 0: it runs none */
    _Atomic uint64_t task;          /* its number among those that began on this thread, */
    uint64_t tasks;                 /* so many */
    _Atomic uint64_t victim;        /* the number of the one that is to end; most often long over */
    atomic_int deferral;            /* a stint_deferral: what its task's interrupt had to wait for last (hold.h) */
    struct sti_quick_clock clock;
    struct sti_processor_clock processor;
    struct sti_thread *next;                     /* on the list of all records; set once */
    struct sti_share *shares;                    /* of groups (share.c); its own */
    _Atomic(struct sti_share *) inbox;           /* of those, which their tasks' threads have decided */
    _Atomic(struct sti_forks *) forks;           /* the executor's; set by its own thread */
    _Atomic(struct sti_quarantine *) quarantine; /* debug mode's */
    struct sti_sampling sampling;
    struct stint_report *reporting;      /* of the scope that is being rolled back; or NULL */
    const struct sti_registers *stopped; /* while a signal's handler looks what has tripped; otherwise NULL */
    stint_report_level report_level;     /* of tasks that do not say it themselves: its pool's */
    struct sti_tally tally; /* of what it ran by stint_run; this and the rest is written by it alone, read by anybody */
    sti_counter deferrals[STI_DEFERRALS];   /* of interrupts, by stint_deferral */
    sti_counter deliveries[STI_WAYS];       /* by stint_on_interrupt */
    _Atomic(struct sti_trace_ring *) trace; /* NULL: none yet (tracing.h) */
} __attribute__((aligned(64)));

/* The calling thread's record while it is in a scope, otherwise NULL. */
extern _Thread_local struct sti_thread *sti_thread_metered;

/* What the allocation functions look at: mostly the same. While a profile runs it may be the record outside of scopes
 * too (sampling.h); while the library works for a scope that begins or ends, and in a profile's callbacks, it is
 * NULL. */
extern _Thread_local struct sti_thread *sti_thread_counted;

/* The innermost scope that the calling thread is in; NULL: it is in none, or the library works for one. */
static inline struct sti_scope *sti_scope_metered(void)
{
    return sti_thread_metered != NULL ? sti_thread_metered->scope : NULL;
}

/* The calling thread goes into a scope; into none, while the library works for one; and back into the one below, or to
 * where it is in none. */
static inline void sti_thread_enter(struct sti_thread *thread)
{
    sti_thread_metered = thread;
    sti_thread_counted = thread;
}

static inline void sti_thread_suspend(void)
{
    sti_thread_metered = NULL;
    sti_thread_counted = NULL;
}

static inline void sti_thread_return_to(struct sti_thread *thread, const struct sti_scope *below)
{
    sti_thread_metered = below != NULL ? thread : NULL;
    sti_thread_counted = below != NULL ? thread : thread->sampling.outside;
}

/* The calling thread's record, made when it has none, for the scopes that it is about to run. NULL: out of memory, or
 * this mimalloc is not the one that the library was compiled for. */
struct sti_thread *sti_thread_self(void);

/* Which of the two it was: ENOMEM or ENOTSUP. */
int sti_thread_missing(void);

/* Before the thread's first block: have mimalloc make what it has of it. Not twice. */
void sti_thread_begin(void);

/* False the first time, of a thread without a record that has not begun by sti_thread_begin: it may be in the midst of
 * what mimalloc does in its first allocation, with a lock. */
bool sti_thread_is_known(void);

/* The record for whatever else, in any allocation and free: NULL while it is being made, and from the thread's end on:
 * libc frees what it has of a thread after the last destructor, and a record that began anew there would never be
 * ended. */
struct sti_thread *sti_thread_self_if_settled(void);

/* The same, but NULL when it has none yet or no more. Safe in signal handlers. */
struct sti_thread *sti_thread_own(void);

/* The innermost scope that the calling thread has open, also while the library works for it; NULL: none. Safe in signal
 * handlers. */
static inline struct sti_scope *sti_scope_innermost(void)
{
    const struct sti_thread *thread = sti_thread_own();
    return thread != NULL ? thread->scope : NULL;
}

/* For the code that ends what a thread leaves. As it ends: the record is not its own any more (false: it was not
 * before), and what is left of it may be ended; and another thread may have it. Or it has none. */
bool sti_thread_begin_end(struct sti_thread *thread);
void sti_thread_hand_on(struct sti_thread *thread);
void sti_thread_end_unrecorded(void);

/* A thread of the library's own, which is nothing to the task that the caller is in. As pthread_create. */
int sti_thread_start(pthread_t *id, const pthread_attr_t *attributes, void *(*function)(void *arg), void *arg);

/* PTHREAD_CANCEL_DISABLE or ENABLE, for the calling thread; what it was. A thread that is cancelled in the midst of
 * this library leaves what it holds, so nothing that has a place for that in it is called with a lock but between the
 * two. */
int sti_thread_set_cancellation(int state);

/* Sleep for less than a second; here no thread is cancelled, and errno stays. */
void sti_thread_nap(long ns);

/* The first of all records; and where it is found, for debuggers. */
struct sti_thread *sti_thread_first(void);
extern _Atomic(struct sti_thread *) sti_thread_records __attribute__((visibility("hidden")));

/* After a flag has been set: make every thread that is in a scope reach a sample point at its next allocation; or this
 * one. Safe in signal handlers. */
void sti_thread_request_samples(void);
void sti_thread_request_sample(struct sti_thread *thread);

/* Whether the task with this number was chosen to end (global.c). Any thread; seq_cst, as a flag is read. */
static inline bool sti_thread_has_victim(const struct sti_thread *thread, uint64_t number)
{
    return atomic_load_explicit(&thread->victim, memory_order_seq_cst) == number;
}

/* How often that was done, from 1 on. */
extern _Atomic uint64_t sti_thread_requests;

/* In the child of a fork(2). */
void sti_thread_in_child(void);

#endif
