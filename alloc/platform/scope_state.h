/* SPDX-License-Identifier: MIT
 *
 * The state of a scope, which the meter, the interrupts, the guards and the undo log share. It lies on the stack of the
 * call that opened it and belongs to that thread. */
#ifndef STI_ALLOC_PLATFORM_SCOPE_STATE_H
#define STI_ALLOC_PLATFORM_SCOPE_STATE_H

#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/interrupt.h>
#include <stint/task.h>
#include <unwind.h>

#include "limits.h"

struct sti_heap;
struct sti_mapped;
struct sti_share;
struct sti_nursery;
struct stint_report;
struct sti_thread;
struct sti_undo_log;

/* A watch, as the watch thread (interrupt/watch.h) has it on its list. */
struct sti_watch;

/* Called by the watch thread, under its lock, whenever something may have changed and when the time it returned last
 * has come (by sti_clock_now). Returns the next such time; STI_WATCH_NEVER; or STI_WATCH_AGAIN when it gave up the lock
 * meanwhile (sti_watch_call), so that the list may have changed. */
typedef uint64_t sti_watch_look_fn(struct sti_watch *watch, uint64_t now);

/* Called under the same lock by whoever wakes the watch, maybe in a signal handler: does what can be done at once.
 * Whether the watch thread has to look, too. */
typedef bool sti_watch_tell_fn(struct sti_watch *watch);

struct sti_watch {
    struct sti_watch *next;
    struct sti_watch **link; /* NULL: not on the list */
    sti_watch_look_fn *look;
    sti_watch_tell_fn *tell; /* NULL: tokens are nothing to it */
    unsigned calls;          /* of user functions for this watch that are running now */
};

/* What a scope knows of its limit on processor time: interrupt/watch.h. */
struct sti_cpu {
    _Atomic uint64_t limit; /* 0: not measured. Written by its thread */
    _Atomic uint64_t begin; /* of the thread's processor time; what detached scopes used meanwhile is added to it */
    uint64_t look;          /* by sti_clock_now: before that the limit cannot be reached; UINT64_MAX: never */
};

/* Where its warnings are due, UINT64_MAX: nowhere (interrupt/warning.h). */
struct sti_marks {
    uint64_t allocated_end; /* a value of the thread's used */
    uint64_t held;          /* bytes */
    uint64_t cpu;           /* nanoseconds */
    _Atomic uint64_t time;  /* by sti_clock_now. Relaxed: nothing is published through it */
};

#define STI_HOLD_REMEMBERED 12

/* What its code holds: interrupt/hold.h. */
struct sti_holds {
    unsigned named;   /* in objects */
    unsigned unnamed; /* beyond those */
    const volatile void *objects[STI_HOLD_REMEMBERED];
};

/* The state of an unwind of the scope's code (interrupt/unwind.h). It lies in the scope, whose memory outlasts all the
 * frames that are left. */
struct sti_unwind {
    struct _Unwind_Exception exception;
    bool under_way;
    bool throws_past_libc; /* operator new did when it threw last: a frame of libc's lay between it and the scope */
};

/* A thread's exceptions, as the Itanium C++ ABI lays them out. */
struct sti_cxx_exceptions {
    void *caught;      /* those whose catch blocks it is in, newest first */
    unsigned uncaught; /* how many are on their way to a catch block */
};

#define STI_CXX_RUNTIMES 4

/* What the calling thread's records held at one moment: interrupt/cxx.h. */
struct sti_cxx_state {
    unsigned count;
    struct sti_cxx_exceptions of[STI_CXX_RUNTIMES];
};

/* What it has in the nursery: heap/nursery.h. */
struct sti_young {
    struct sti_nursery *nursery; /* its part of the log begins in this one, */
    size_t begin;                /* here; NULL: there was none */
    size_t held;                 /* bytes in its blocks, as far as is known; never too few */
    size_t measured;             /* so many they were when they were counted last */
    unsigned blocks;             /* made in all */
    bool other_nursery;          /* what comes next must not lie in the thread's present nursery */
    bool no_nursery;             /* the scope is never young */
};

/* What is to be run, and what the executor asks for beyond stint_run. */
struct sti_scope_request {
    stint_fn *fn;
    void *arg;
    const stint_options *options; /* never NULL; its token is not looked at */
    const stint_token *token;     /* when set: STINT_REASON_TOKEN. May be NULL */
    const stint_token *stop;      /* when set: STINT_REASON_SHUTDOWN. May be NULL */
    struct sti_tally *tally;      /* where its end is counted; NULL: with its thread */
    struct stint_report **report; /* where its report goes, in the place of an older one; NULL: there is none */
    struct sti_limits *limits;    /* that others may change; NULL: nobody may */
    uint64_t submitted_ns;        /* where wall_ns counts from, by sti_clock_now; 0: from the start */
    bool entered;  /* the options' account counts it already (sti_account_try_enter); the scope sees to that from now
                      on */
    bool detached; /* independent of the scopes that the thread is in already: they are not charged, their interrupts
                      wait, and the call always returns */
};

/* What interrupts a task on all of its threads: written once, by the thread that finds a reason first
 * (interrupt/interrupt.h). */
struct sti_shared_interrupt {
    _Atomic stint_reason tripped;
    struct sti_thread *thread;             /* of the task's own scope, */
    uint64_t task;                         /* and its number there */
    _Atomic(struct stint_report *) report; /* by the thread that tripped it, if it was not that one */
};

/* What a thread's record says of the task that it runs, set aside while another runs on top of it (meter/global.h). */
struct sti_running {
    uint64_t number;
    uint64_t started;
};

#define STI_SCOPE_FIRST_SWEEP 8 /* heaps from inner scopes */

#define STI_LOOKED_TIMED (UINT64_C(1) << 63)

struct sti_scope {
    struct sti_scope *below; /* what the thread was in before */
    uintptr_t frame; /* of the function that runs it, then of its resume point: frames below it are the task's. Not the
                        scope's own address, which a sanitizer's may be elsewhere. Set before the scope is opened */
    struct sti_scope *outer; /* what this scope charges too: below, or NULL when it is detached */

    uint64_t number;           /* its task's on its thread, if it is the outermost; */
    struct sti_running around; /* and what is below it, if anything is */

    const struct sti_scope_request *request;
    struct sti_shared_interrupt *shared; /* the group's; nothing where share is NULL */
    size_t forks;                        /* outstanding on the thread when it opened (interrupt/forks.h), */
    size_t own_forks;                    /* and those that only it can run (interrupt/forks.h) */

    /* Nothing yet when it opens. These lie together and are set together, which takes a third of the instructions. */
    struct sti_share *share;      /* of its task's group; NULL: this is no outermost scope of one (shared_budget.h) */
    const stint_account *charged; /* the first above it that a scope around this one charges already; NULL: none */
    size_t peak;
    size_t granted_peak; /* its next value, if the block that was last measured for is granted */
    uint64_t samples;
    uint64_t deferred; /* interrupts */
    uint64_t looked; /* sti_thread_requests when nothing that it counts was found; with a bit where there is a limit of
                        time: then the clock has to be looked at, too */
    struct stint_report *report; /* its own so far; NULL: none (observe/report.h) */
    uint64_t walk_at;  /* a value of the thread's used: after an interrupt had to wait for a frame, an allocation before
                          this asks no frame again */
    uint64_t walk_gap; /* so many bytes lay between the last two times */
    stint_guard *guards;         /* newest first, and the next */
    stint_mutex *mutexes;        /* held */
    uint64_t pushes;             /* of guards and mutexes */
    stint_guard *hooks;          /* for the watch */
    struct sti_heap *heap;       /* its own; NULL while it is young */
    struct sti_heap *heaps;      /* its own and those that inner scopes committed into it, */
    size_t heap_count;           /* so many, since it was last looked which are empty */
    struct sti_heap *libc_heaps; /* never destroyed: libc_heap.h */
    struct sti_mapped *mapped;   /* NULL: it has mapped nothing */
    struct sti_undo_log *undo;   /* the log: undo.h. NULL: nothing was ever in it */
    void *payload;               /* of its error (context.h); NULL: none */
    char *message;               /* its outcome's, of STINT_MESSAGE_SIZE bytes; NULL: it has none, being a subtask's */
    stint_reason tripped;        /* written once; STINT_REASON_NONE until then */
    unsigned masks;
    unsigned regions;      /* of blocking */
    unsigned warn;         /* options.warn */
    unsigned keeps;        /* regions whose blocks go to the process's heap; each is masked too */
    unsigned suppressed;   /* under the watch's lock: hook.h */
    bool entered;          /* the account counts it as one that runs */
    bool finished;         /* stint_finish: nothing trips it any more */
    bool refused;          /* STINT_FAIL: an interrupt has been delivered */
    bool is_unheard;       /* nobody is told why it ends: its function was not called, or its caller has gone */
    bool is_subtask;       /* a stolen one's (scope/subtask.h) */
    bool is_inner_subtask; /* a stolen subtask of the group that the scopes around it belong to (subtask.c) */
    bool watched;          /* watch is on the list */

    /* The meter's. Ends and checks are values of the thread's used. */
    uint64_t begin;
    uint64_t own_end;        /* where this scope's allocation limit is reached */
    uint64_t allocation_end; /* where the first allocation limit is reached, this one's or one's around it */
    uint64_t below_memory_check;
    size_t memory_limit; /* 0: none */
    stint_account *account;
    uint64_t granted_end; /* how far the account has granted allocations */
    uint64_t reserved;    /* of the account's memory */
    size_t grace_left;
    size_t libc_left; /* of what libc may have beyond that for itself */

    /* The interrupts'. */
    uint64_t start; /* by sti_clock_now; untimed: when it was submitted, or 0 */
    struct sti_cpu cpu;
    _Atomic uint64_t deadline; /* by sti_clock_now; UINT64_MAX: none. Written by its thread */
    struct sti_marks marks;    /* where warn is not 0 */
    uint64_t limits_counted;   /* this and the next two where others may change its limits (sti_scope_limits): which
                                  version it goes by, of bytes; */
    uint64_t limits_timed;     /* of time; */
    uint64_t limits_notified;  /* and of what the watch has told: hook.c */
    const stint_token *token;
    const stint_token *stop;
    stint_on_interrupt on_interrupt;
    uint64_t limit_outside_keep; /* its thread's, when the outermost region began whose blocks are kept */
    struct sti_holds holds;
    bool names_locks; /* it is this scope for which the thread's locks are remembered by address: hold.h */
    struct sti_thread *thread;
    struct sti_watch watch;
    bool preemptible;
    bool untimed; /* nobody needs to know when it starts and ends */
    bool wiped;   /* its heaps are, when they are destroyed */
    bool signal_was_blocked;
    struct sti_cxx_state cxx; /* when the scope opened */
    struct sti_unwind unwind;
    jmp_buf resume_point;

    /* What a rollback takes back. */
    struct sti_young young; /* what it has in the nursery */

    size_t payload_size;
    size_t sweep_at; /* when it will be next */
};

static inline uint64_t sti_scope_deadline(const struct sti_scope *scope)
{
    return atomic_load_explicit(&scope->deadline, memory_order_relaxed);
}

/* UINT64_MAX: there is none. */
static inline uint64_t sti_scope_time_mark(const struct sti_scope *scope)
{
    return scope->warn != 0 ? atomic_load_explicit(&scope->marks.time, memory_order_relaxed) : UINT64_MAX;
}

static inline uint64_t sti_scope_cpu_limit(const struct sti_scope *scope)
{
    return atomic_load_explicit(&scope->cpu.limit, memory_order_relaxed);
}

/* The one that charges nothing else. */
static inline struct sti_scope *sti_scope_outermost(const struct sti_scope *innermost)
{
    while (innermost->outer != NULL)
        innermost = innermost->outer;
    return (struct sti_scope *)(uintptr_t)innermost;
}

/* The limits of the scope's task that other threads may change; NULL: no thread may, or the scope lies inside its
 * task's scope. */
static inline struct sti_limits *sti_scope_limits(const struct sti_scope *scope)
{
    return scope->outer == NULL ? scope->request->limits : NULL;
}

/* The scope opens, with the limits of its options. */
static inline void sti_scope_begin_limits(struct sti_scope *scope)
{
    scope->limits_counted = 0;
    scope->limits_timed = 0;
    scope->limits_notified = 0;
}

/* The version of limits that another thread has changed since the scope took them; 0: no change. */
static inline uint64_t sti_scope_new_limits(const struct sti_scope *scope, uint64_t taken)
{
    const struct sti_limits *limits = sti_scope_limits(scope);
    if (__builtin_expect(limits == NULL, 1))
        return 0; /* what was taken has no value then */
    uint64_t version = sti_limits_version(limits);
    return __builtin_expect(version != taken, 0) ? version : 0;
}

static inline bool sti_scope_has_limit_of_time(const struct sti_scope *scope)
{
    return sti_scope_deadline(scope) != UINT64_MAX || sti_scope_cpu_limit(scope) != 0;
}

/* Below such a scope lie frames of a pool's, which nothing may leave. */
static inline bool sti_frames_are_of_a_pool(const struct sti_scope *scope)
{
    return scope->is_subtask || scope->request->detached;
}

#endif
