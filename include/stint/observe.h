/* SPDX-License-Identifier: MIT
 *
 * What was, and what is: reports of tasks that did not end Ok, profiles of memory, traces of all threads, metrics for
 * a monitoring system, and the samples of allocations that profiles are made of.
 *
 *     #include <stdio.h>
 *     #include <stdlib.h>
 *     #include <unistd.h>
 *     #include <stint/observe.h>
 *
 *     static int take_too_much(void *unused, void **value)
 *     {
 *         (void)unused;
 *         *value = malloc(10 << 20);
 *         return 0;
 *     }
 *
 *     int main(void)
 *     {
 *         stint_options options = STINT_OPTIONS_INIT;
 *         options.budget.memory = 1 << 20;
 *         options.report = STINT_REPORT_HEAP;
 *         stint_outcome outcome;
 *         stint_report *report;
 *         if (stint_run_reported(take_too_much, NULL, &options, &outcome, &report) != 0)
 *             return 1;
 *         if (report != NULL) // where it was, and what it held
 *             stint_report_write(report, STDOUT_FILENO, STINT_REPORT_TEXT);
 *         stint_report_release(report);
 *         return 0;
 *     } */
#ifndef STINT_OBSERVE_H
#define STINT_OBSERVE_H

#include <stddef.h>
#include <stdint.h>

#include <stint/detail/api.h>
#include <stint/future.h>
#include <stint/task.h>

STINT_BEGIN_DECLS

/* --- Reports ------------------------------------------------------------------------------------------------------ */

/* The post-mortem: where a task was that did not end Ok, what it had taken, and who held it. A report is asked for by
 * stint_options.report, of a task or, for all of a pool's tasks, by stint_pool_options.report. docs/reports.md shows
 * one and says how it is read.
 *
 *   how     of a walled task (wall.h) whose process has ended: its signal, with the address and the instruction of a
 *           fault, or its exit status
 *   where   the callstack at which the limit was found passed or the token set, and the one at which the task was left
 *           if that was later, with what its interrupt had to wait for until then
 *   when    up to 64 points in its life: bytes held, time, and processor time
 *   what    STINT_REPORT_HEAP: its blocks by size, what they begin with, and the largest ones
 *   who     STINT_REPORT_HEAP, of a task with stint_options.sample_rate, or else while a profile runs: the
 *           callstacks whose blocks it held
 *   kept    the variables that held blocks of its back from the rollback (memory.h)
 *
 * Taken down are addresses and numbers, at the moment of the stop: for STINT_REPORT_STACK in some 20 microseconds, for
 * STINT_REPORT_HEAP in up to a millisecond more, and as much again for each GiB of small blocks. Nothing of it lies in
 * the task's heap or is charged to it. A task that ends Ok costs a clock's reading whenever its memory is measured, and
 * nothing else. Names are looked up when the report is written.
 *
 * Why a report: a post-mortem in place of a core file, taken in the process that goes on, at the one moment when the
 * heap of the task is all there and nobody works in it. */

typedef struct stint_report stint_report;

/* The report of the task whose future has resolved; *report is the caller's, to be released, and outlives the future.
 * There may be any number of calls, each for a reference of its own.
 *
 * 0; EINVAL: an argument is NULL; EAGAIN: the future has not resolved; ENODATA: the task ended Ok, or never began; none
 * was asked for; or it is a compound future; or there was no memory for it. Any thread. */
STINT_API int stint_future_report(stint_future *future, stint_report **report);

/* As stint_run, with the level of the options' report for this run, and *report the caller's, to be released; NULL
 * where stint_future_report would say ENODATA. When a scope around it is what was interrupted, the report is that
 * scope's, and *report is NULL. In place of stint_run's sample point at the end, where *report is set, the next one
 * does: so it is not lost to a jump.
 *
 * As stint_run; EINVAL: also when report is NULL. *report is left as it is where the options, or an argument, are
 * refused; after any other error it is NULL. Left by longjmp, or with its thread, the run leaves no report. Any
 * thread. */
STINT_API int stint_run_reported(stint_fn *fn, void *arg, const stint_options *options, stint_outcome *outcome,
                                 stint_report **report);

typedef enum stint_report_kind {
    STINT_REPORT_TEXT = 0, /* for people */
    STINT_REPORT_LINE,     /* one line of it, for a log: what it held, and where it was */
    STINT_REPORT_JSON,     /* for machines: one object, whose fields docs/reports.md lists */
    STINT_REPORT_PPROF,    /* a profile of what it held: by its holders, or else by where it was stopped */
} stint_report_kind;

/* Write the report to a descriptor, which stays open. The functions' names come from the symbols of the modules that
 * are loaded now. In names, what is no character or would do something to a terminal is written as its bytes, \x1b and
 * so on; in JSON as JSON has it. First it is put together in memory, one report at a time, which takes milliseconds to
 * seconds, is charged to no task, and during which an interrupt of the calling task waits. Then it is written, as long
 * as that takes: a reader that does not read keeps no other report waiting, and a task that waits for one is
 * interrupted as in any wait. Loads the same module as stint_profile_write does.
 *
 * 0; EINVAL: report is NULL, or there is no such kind; ENOTSUP, ELIBACC, EDEADLK: as stint_profile_write; ENOMEM;
 * ECANCELED: the calling task, in STINT_FAIL, is to stop, and nobody reads; and whatever write() reports (ENOSPC and so
 * on): then a part has been written, and it can be written again. Any thread; not from signal handlers. */
STINT_API int stint_report_write(const stint_report *report, int fd, stint_report_kind kind);

/* Take another reference; returns report. NULL is passed through. Any thread. */
STINT_API stint_report *stint_report_retain(stint_report *report);

/* Give one back; the last one frees it. NULL does nothing. Any thread. */
STINT_API void stint_report_release(stint_report *report);

/* A warning: a task (stint_options.warn), an account (stint_account_limits.warn) or the process
 * (stint_global_set_warning) has used more of a limit than it wants to without anybody knowing. Nothing is stopped: the
 * idea is that of GHC's DontKillOnAllocationLimit, and of an allocator's soft limit.
 *
 * Where a limit is looked at, there its warning is found: for bytes at a sample point, which is due at the mark as it
 * is at the limit; for time at the next sample point after the mark, and without one where the task is preemptible, has
 * a hook or sleeps in the library's waits. So a task that loops or sleeps elsewhere is warned of late or never. Of a
 * task on several threads what is known when its own thread looks counts. Walled tasks have the warnings of all of
 * these limits: allocation and memory are found by the child, wall_ns, run_ns and cpu_ns by the program. Each is told
 * once for a task, and once again after its budget has been changed (stint_future_set_budget). */
typedef struct stint_warning {
    stint_reason reason; /* what it will be stopped for: ALLOCATION_LIMIT, MEMORY_LIMIT, DEADLINE, CPU; of an account
                          * ACCOUNT; of the process GLOBAL_MEMORY_LIMIT */
    const char *name;    /* the first 63 characters of the task's or the account's; NULL: it has none, or the process */
    uint64_t used;       /* bytes; DEADLINE: nanoseconds since its submission; CPU: of processor time */
    uint64_t limit;      /* in the same unit */
    bool memory;         /* ACCOUNT: its limit on memory; false: that on allocation */
} stint_warning;         /* later versions may have more at its end */

/* Is told one warning, which is the library's until it returns. */
typedef void stint_warning_fn(const stint_warning *warning, void *arg);

/* Have each warning of the process told to warn(warning, arg) from now on, on the thread that the library has for
 * deadlines and hooks, one after the other; NULL: nobody is told. It must not block, as all of those wait for it; it
 * may change budgets and limits, cancel and submit. Where sixteen wait to be told, further ones are only counted; all
 * are counted in the metric stint_warnings_total, and are in the trace of the thread that found them. A
 * child of fork(2) has to set it again. One that is being told now may still be told to what was set before.
 *
 * 0; EAGAIN, ENOMEM: that thread could not be started. Any thread, also in warn. */
STINT_API int stint_warnings_set(stint_warning_fn *warn, void *arg);

/* --- Profiles ----------------------------------------------------------------------------------------------------- */

/* Memory profiles: which code allocates, how much of it is still there, in which task and for which account. Built on
 * the sampling of stint/observe.h, so it costs little and gives estimates without bias; docs/profiling.md says how to
 * read them. Written in the format of pprof (github.com/google/pprof), or as collapsed stacks, from which Brendan
 * Gregg's flame graphs and those of scripts/flamegraph are drawn.
 *
 * With no change of code: STINT_PROFILE=interval:path in the environment starts a profile with the program, and writes
 * it when the program ends or is sent SIGUSR2. interval is in bytes, or with k or m behind it in KiB or MiB. A path
 * that ends in .collapsed gets collapsed stacks, every other pprof; %p in it becomes the process's number, and a file
 * that was there is replaced when the new one is complete. An error has no caller to go to in that case: it is one line
 * on standard error, the only thing that this library ever prints. The children of the process have no profile, unless
 * they execute a program. A program that ignores or handles SIGUSR2 keeps it. */

/* Made by STINT_PROFILE_OPTIONS_INIT; it can grow: stint.h. */
typedef struct stint_profile_options {
    size_t size; /* sizeof(stint_profile_options) */

    /* How often, as in stint_memprof_options: samples a word, or the mean interval in bytes; the other is 0. */
    double rate;
    size_t interval;

    size_t callstack_depth; /* at most STINT_MEMPROF_DEPTH_MAX */
    uint64_t seed;          /* of the random numbers, for tests; 0: another each time */
} stint_profile_options;

/* One sample in 512 KiB, 64 frames. */
/* clang-format off */
#ifdef __cplusplus
#define STINT_PROFILE_OPTIONS_INIT stint_sized_<stint_profile_options>(0.0, (size_t)512 << 10, (size_t)64)
#else
#define STINT_PROFILE_OPTIONS_INIT \
    { .size = sizeof(stint_profile_options), .interval = (size_t)512 << 10, .callstack_depth = 64 }
#endif
/* clang-format on */

typedef enum stint_profile_kind {
    STINT_PROFILE_PPROF = 0, /* profile.proto, gzipped: both what was allocated and what is in use */
    STINT_PROFILE_COLLAPSED, /* a line a stack: its functions from the outermost in, and the bytes allocated there */
    STINT_PROFILE_COLLAPSED_INUSE, /* the same with the bytes that are in use */
} stint_profile_kind;

/* Estimates of the whole, without bias. Bytes are what the meter charges (docs/metering.md); outside of tasks, what it
 * would charge. In use: neither freed nor rolled back. Made by STINT_PROFILE_TOTALS_INIT before they are read; they can
 * grow: stint.h. */
typedef struct stint_profile_totals {
    size_t size; /* sizeof(stint_profile_totals) */
    uint64_t alloc_objects;
    uint64_t alloc_bytes;
    uint64_t inuse_objects;
    uint64_t inuse_bytes;
    uint64_t samples; /* that all this rests on: its relative error is about 1 / sqrt(samples) */
    uint64_t lost;    /* samples for whose records there was no memory; they are not in the numbers above */
} stint_profile_totals;

#define STINT_PROFILE_TOTALS_INIT STINT_SIZED_INIT_(stint_profile_totals)

/* Start a profile; what an earlier one gathered is forgotten. options may be NULL: STINT_PROFILE_OPTIONS_INIT. It is a
 * tracker as in stint/observe.h, of which there is one in a process.
 *
 * 0; EINVAL and E2BIG: as stint_memprof_start; EBUSY: a profile is running, this kind or one of stint_memprof_start;
 * ENOMEM. Any thread. */
STINT_API int stint_profile_start(const stint_profile_options *options);

/* Stop the profile. What it gathered can be read and written until the next start; what was in use remains so.
 *
 * 0; EINVAL: none is running; EDEADLK and EBUSY: as stint_memprof_stop. Any thread. */
STINT_API int stint_profile_stop(void);

/* Read the sums, while the profile runs or after it. They are those of a profile written at this moment.
 *
 * 0; EINVAL: totals is NULL, or has no size, or no profile was started in this process. Any thread. */
STINT_API int stint_profile_read(stint_profile_totals *totals);

/* Write the profile to a descriptor, which stays open, while it runs or after it; other threads go on meanwhile. What
 * this allocates is charged to no task, and not sampled. First the profile is put together in memory, during which an
 * interrupt of the calling task waits: milliseconds to seconds, for the symbols of all modules are read. Then it is
 * written, holding no lock; a task that waits for a reader meanwhile is interrupted as in any wait. The first call
 * loads the part of the library that writes profiles, a module in the folder stint/ beside it, and with that
 * protobuf-c, zlib and libdw; they stay loaded. One profile is put together at a time, a second one waits.
 *
 * 0; EINVAL: no profile was started, or there is no such kind; ENOTSUP: stint was built without profiles, which need
 * protobuf-c, zlib and libdw; ELIBACC: the module, which must be of the same version as the library, or a library that
 * it needs cannot be loaded; EDEADLK: called from a tracker's callback; ENOMEM; ECANCELED: the calling task, in
 * STINT_FAIL, is to stop, and nobody reads; and whatever write() reports (ENOSPC, EBADF, EAGAIN, EPIPE where SIGPIPE is
 * ignored, and so on): then a part of the profile has been written, and it can be written again. Any thread; not from
 * signal handlers. */
STINT_API int stint_profile_write(int fd, stint_profile_kind kind);

/* --- Traces ------------------------------------------------------------------------------------------------------- */

/* Traces: what every thread did and when, in the JSON trace-event format of Chrome, which Perfetto (ui.perfetto.dev),
 * Chrome itself and others show as a picture. Threads are tracks; tasks, stolen subtasks, rollbacks and sleeps are
 * slices on them, with what came of each as arguments; submissions, steals and wake-ups are flows, arrows from one
 * track to another. docs/tracing.md says what is in it, and what it costs.
 *
 * With no change of code: STINT_TRACE=path in the environment starts a trace with the program and completes it when
 * that ends; %p in the path becomes the process's number, and a file that was there is replaced. An error has no caller
 * to go to in that case: it is one line on standard error. The children of the process have no trace, unless they
 * execute a program.
 *
 * Each thread writes what happens on it into a ring of its own, without a lock, and a thread of the library's own
 * formats and writes it, as the tracers of operating systems do (Linux's ftrace, LTTng; the format: Google's "Trace
 * Event Format"). It takes a twentieth of one processor at most. Where events come faster than that, the ring is full
 * and they are left out: never half a slice; and how many were is said where they are missing, and at the end. */

/* Start a trace that is written to a descriptor, which stays the caller's and has to stay open until stint_trace_stop.
 * Where it is closed all the same, and its number given to another file, that is not written to: the trace ends there
 * with EBADF, and so does that of STINT_TRACE in a program that closes all descriptors. There is one trace in a
 * process. In a child of fork(2) it has ended, and the descriptor is not written to.
 *
 * What has begun before, and what the child of a fork(2) does, is not in it. Times are those of CLOCK_MONOTONIC. Of the
 * names of tasks 31 bytes count; where there is none it is the module of the task's function and the place in that.
 * Each thread of which something is written has a ring of 512 KiB from the process's heap, kept for the next trace; it
 * is charged to no task.
 *
 * 0; EINVAL: it is no descriptor that can be written to; EBUSY: a trace runs; ENOMEM, EAGAIN: no thread could be
 * started. Any thread, in tasks too; not from signal handlers. */
STINT_API int stint_trace_start(int fd);

/* Stop the trace: write what is there and complete it. Slices that have not ended end there, marked as unfinished.
 * Waits as write() does where the descriptor blocks.
 *
 * 0; EINVAL: none runs, or it is being stopped; or the first error of write() (ENOSPC, EFBIG, EPIPE, EAGAIN where the
 * descriptor does not block, and so on): then what had been written before it is there, and nothing more of the trace;
 * the trace has ended all the same, and no task has noticed. Any thread, in tasks too, where an interrupt that comes
 * meanwhile waits for the end of the call; not from signal handlers. */
STINT_API int stint_trace_stop(void);

/* --- Metrics ------------------------------------------------------------------------------------------------------ */

/* What the process's tasks do, as text for a monitoring system: OpenMetrics 1.0, which Prometheus and those that
 * understand it scrape (https://prometheus.io/docs/specs/om/open_metrics_spec/). docs/tracing.md says what each metric
 * means, and what to ask. */

/* Write all metrics of the process to a descriptor, which stays open: for every pool, labelled by its name (a second
 * one of the same name is "name#2" as long as both live); for accounts, by theirs; and for the process. To be sent as
 * application/openmetrics-text; version=1.0.0; charset=utf-8.
 *
 * Each number is right by itself, at some moment during the call, and no counter ever shrinks while what it is labelled
 * by lives. A task is counted when it has ended, before its future is ready; by stint_run, before that returns. Pools
 * that are being made or destroyed meanwhile may be left out.
 *
 * The first 255 names of accounts get labels of their own, each for all accounts of that name, one after the other.
 * What has another name, or none, is counted with the account that it lies in, and if it lies in none, as "other". Of
 * names 127 bytes count, and in them what is not UTF-8 is replaced.
 *
 * Waits as write() does where the descriptor blocks; holds no lock of the library's meanwhile. Allocates nothing in a
 * task's heap, and charges nothing to it.
 *
 * 0; ENOMEM: nothing was written; ECANCELED: the calling task, in STINT_FAIL, is to stop, and nobody reads; and
 * whatever write() reports (EBADF, ENOSPC, EFBIG, EAGAIN, EPIPE where SIGPIPE is ignored or blocked, and so on): then a
 * part has been written, without the "# EOF" that ends a whole one. Any thread, in tasks too, where an interrupt that
 * comes meanwhile waits for the end of the call, but where write() would wait for a reader. */
STINT_API int stint_metrics_write(int fd);

/* --- Samples of allocations --------------------------------------------------------------------------------------- */

/* The statistical memory profiler: follow a small random part of all allocations, each with where it was made and what
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
