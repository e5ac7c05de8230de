/* SPDX-License-Identifier: MIT
 *
 * The statistical memory profiler: follow a small random part of all allocations, each with where it was made and what
 * became of it, at a cost too small to notice. The interface is that of OCaml's Memprof (Jourdan; StatMemprof), in C's
 * terms: what Memprof calls the minor heap is a task's heap, promotion is the commit of a block when its task ends Ok.
 *
 * Samples fall on the stream of charged bytes (docs/metering.md) as a Poisson process: every byte is as likely as any
 * other. So a block of c charged bytes holds c / interval samples on average, and for a block with s samples
 *
 *     s * interval              estimates its charged bytes,
 *     s * interval / c          estimates 1, the block itself;
 *
 * summed up over many blocks both are unbiased. docs/profiling.md tells more, docs/metering.md has the errors.
 *
 * One profile at a time, of the whole process. Limits know nothing of it: a task's outcome and usage.allocated are the
 * same with a profile and without, only usage.samples differs. While none runs, nothing costs anything. */
#ifndef STINT_MEMPROF_H
#define STINT_MEMPROF_H

#include <stint/task.h>

STINT_BEGIN_DECLS

/* What the block belongs to. */
typedef enum stint_memprof_source {
    STINT_MEMPROF_TASK_HEAP = 0, /* a task: it is committed or rolled back with it */
    STINT_MEMPROF_PROCESS_HEAP, /* the process: made outside of tasks, or between stint_keep_begin and stint_keep_end */
    STINT_MEMPROF_ALIGNED,      /* either of them, at an alignment above 16 that was asked for */
    STINT_MEMPROF_FOREIGN,      /* libc or the loader, for itself */
} stint_memprof_source;

/* A sampled block, just made. All pointers are valid during the call only, but for task and account, which live as long
 * as the task. */
typedef struct stint_memprof_allocation {
    uint64_t samples; /* in this block, at least 1 */
    size_t size;      /* bytes that were asked for */
    uint64_t charged; /* bytes that the meter counted for it, which is what samples fall on: size and more */
    double interval;  /* mean number of charged bytes from one sample to the next */
    stint_memprof_source source;
    bool in_task_heap; /* also told of an aligned block */

    /* Return addresses, the innermost first: the first is where the allocation function was called. */
    void *const *callstack;
    size_t callstack_length; /* at most the depth of the options; less where the stack cannot be followed further */

    const char *task;             /* stint_options.name of the innermost task that has one; NULL: none, or no task */
    const stint_account *account; /* of the innermost task that has one; NULL likewise */
} stint_memprof_allocation;

/* What became of a block. */
typedef enum stint_memprof_end {
    STINT_MEMPROF_FREED = 0,   /* by free and its like, or by a realloc that moved it */
    STINT_MEMPROF_ROLLED_BACK, /* with the heap of its task, which did not end Ok */
    STINT_MEMPROF_STOPPED,     /* nothing: it lives on, but stint_memprof_stop was called */
} stint_memprof_end;

/* A sampled block was made, on this thread. Returns the user's metadata, with which it is followed; NULL: do not follow
 * it; STINT_MEMPROF_INTERRUPT: neither, and interrupt the innermost task at its next safe point with
 * STINT_REASON_TRACKER (outside of tasks, as NULL). */
typedef void *stint_memprof_alloc_fn(const stint_memprof_allocation *allocation, void *arg);

/* The block's task ended Ok, and the block lives on in the process's heap. Returns the metadata from now on; NULL: do
 * not follow it any more, and no dealloc comes. On the thread that ran the task. */
typedef void *stint_memprof_promote_fn(void *metadata, void *arg);

/* The block's end: its metadata is not used any more after this. STINT_MEMPROF_FREED: on the thread that frees it,
 * before the memory can be used again; if it is freed while promote runs, after that and there. */
typedef void stint_memprof_dealloc_fn(void *metadata, stint_memprof_end end, void *arg);

/* The user's part. A block that alloc follows gets exactly one dealloc, and before that one promote if it is in a
 * task's heap that is committed first.
 *
 * While a callback runs, sampling is off for its thread; what it allocates comes from the process's heap and is charged
 * to no task; interrupts of its task wait. Callbacks may run on several threads at once. They are called in the midst
 * of an allocation or a free, whose caller may hold any lock: of libc's functions call only what is safe under a lock
 * of stdio or the loader, and take no lock that is also held around a metered allocation. They must return, and may not
 * run a task. The dealloc of a block that a callback frees comes after the callback's end. */
typedef struct stint_memprof_tracker {
    stint_memprof_alloc_fn *alloc;
    stint_memprof_promote_fn *promote; /* may be NULL: as if it returned metadata */
    stint_memprof_dealloc_fn *dealloc; /* may be NULL */
} stint_memprof_tracker;

/* What alloc returns to interrupt the task: with it users write limits of their own, such as so many blocks of a size
 * or from one place. It is what led from StatMemprof to memprof-limits. */
#define STINT_MEMPROF_INTERRUPT ((void *)(uintptr_t)-1)

/* Made by STINT_MEMPROF_OPTIONS_INIT; it can grow, while the tracker stays as it is: stint.h. */
typedef struct stint_memprof_options {
    size_t size; /* sizeof(stint_memprof_options) */

    /* How often: samples a word of 8 bytes, as in Memprof, above 0 and at most 1; or the mean interval between samples
     * in bytes, at least 8. Exactly one of the two is given, the other is 0. */
    double rate;
    size_t interval;

    size_t callstack_depth; /* return addresses at most; 0: none; at most STINT_MEMPROF_DEPTH_MAX */
    stint_memprof_tracker tracker;
    void *arg;     /* given to the callbacks */
    uint64_t seed; /* of the random numbers, for tests; 0: another in each profile */
} stint_memprof_options;

#define STINT_MEMPROF_DEPTH_MAX 1024

/* One sample in 512 KiB, 64 frames. */
/* clang-format off */
#ifdef __cplusplus
#define STINT_MEMPROF_OPTIONS_INIT stint_sized_<stint_memprof_options>(0.0, (size_t)512 << 10, (size_t)64)
#else
#define STINT_MEMPROF_OPTIONS_INIT \
    { .size = sizeof(stint_memprof_options), .interval = (size_t)512 << 10, .callstack_depth = 64 }
#endif
/* clang-format on */

/* Start a profile. It sees the calling thread's allocations and those of every task from now on; another thread that is
 * in no task joins it after some allocations (when mimalloc next leaves its own fast path, usually within 64 KiB). The
 * child of a fork(2) has no profile: it can start one. options are copied.
 *
 * 0; EINVAL: options or alloc is NULL, the rate is not in (0, 1], the interval is below 8, both or none are given, the
 * depth is too large, or the options have no size; E2BIG: they set one that this library is too old to know; EBUSY: a
 * profile is running, or being stopped, or this is a callback of one; ENOMEM. Any thread. */
STINT_API int stint_memprof_start(const stint_memprof_options *options);

/* Stop the profile: wait for the callbacks that run on other threads, then end what is still followed, with
 * STINT_MEMPROF_STOPPED, on this thread. After it no callback runs or will run. Interrupts of the calling task wait.
 *
 * 0; EINVAL: no profile is running; EDEADLK: called from a callback (nothing was done); EBUSY: another thread is
 * starting or stopping one. Any thread. */
STINT_API int stint_memprof_stop(void);

STINT_END_DECLS

#endif
