/* SPDX-License-Identifier: MIT
 *
 * A program looks at its tasks from outside. This header has reports of tasks that did not end Ok, warnings before a
 * limit is passed, profiles of memory, traces of all threads, metrics for a monitoring system, and the samples of
 * allocations that profiles are made of.
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

/* A report tells of a task that did not end Ok: where the task was, what it had taken, and which code held that. It
 * serves as a core file does, but the process goes on. It is made at the one moment when the task's heap is complete
 * and nothing works in it. A program asks for the report of a task with stint_options.report, and for those of all of a
 * pool's tasks with stint_pool_options.report. docs/reports.md shows one and says how it is read.
 *
 *   how     behind a wall (wall.h), for a process that has ended: its signal, with the address and the instruction of a
 *           fault, or its exit status
 *   where   the callstack at which the limit was found passed or the token set; and the one at which the task was left
 *           if that was later, with what its interrupt had to wait for until then
 *   when    up to 64 points in its life: bytes held, time, and processor time
 *   what    STINT_REPORT_HEAP: its blocks by size, what they begin with, and the largest ones
 *   who     STINT_REPORT_HEAP, of a task with stint_options.sample_rate, or while a profile runs: the callstacks whose
 *           blocks it held
 *   kept    the variables that held blocks of its back from the rollback (memory.h)
 *
 * Addresses and numbers are taken down at the moment of the stop: for STINT_REPORT_STACK in some 20 microseconds, for
 * STINT_REPORT_HEAP in up to a millisecond more, and as much again for each GiB of small blocks. Nothing of it lies in
 * the task's heap or is charged to the task. A task that ends Ok pays one reading of the clock whenever its memory is
 * measured. Names are looked up when the report is written. */

/* A report of one task. stint_future_report and stint_run_reported give one, and stint_report_release gives it back. */
typedef struct stint_report stint_report;

/* Get the report of the task whose future has resolved. The caller owns *report and releases it; it outlives the
 * future. There may be any number of calls, each of which gives a reference of its own.
 *
 * Returns 0, or:
 *   EINVAL   an argument is NULL
 *   EAGAIN   the future has not resolved
 *   ENODATA  there is no report: the task ended Ok or never began, none was asked for, the future is a compound, or
 *            there was no memory for it */
STINT_API int stint_future_report(stint_future *future, stint_report **report);

/* Run fn(arg) as stint_run does, and get the report that options->report asks for. The caller owns *report and releases
 * it; it is NULL where stint_future_report would return ENODATA. When a scope around this one is what was interrupted,
 * the report is that scope's, and *report is NULL. stint_run has a sample point at its end; where *report is set the
 * next sample point takes its place, so that the report is not lost to a jump.
 *
 * *report is left as it is where the options or an argument are refused. After any other error it is NULL. A run that
 * is left by longjmp, or with its thread, leaves no report.
 *
 * Returns 0, or:
 *   EINVAL  report is NULL, or as stint_run
 *   E2BIG, ENOMEM, ENOTSUP, EAGAIN, EBUSY  as stint_run */
STINT_API int stint_run_reported(stint_fn *fn, void *arg, const stint_options *options, stint_outcome *outcome,
                                 stint_report **report);

/* In which form stint_report_write writes a report. */
typedef enum stint_report_kind {
    STINT_REPORT_TEXT = 0, /* for people */
    STINT_REPORT_LINE,     /* one line, for a log: what the task held, and where it was */
    STINT_REPORT_JSON,     /* for machines: one object, whose fields docs/reports.md lists */
    STINT_REPORT_PPROF,    /* a profile of what the task held: by its holders, or else by where it was stopped */
} stint_report_kind;

/* Write a report to a descriptor, which stays open. The functions' names come from the symbols of the modules that are
 * loaded now. In names, bytes that are no character or would do something to a terminal are written as \x1b and so on;
 * in JSON as JSON has it.
 *
 * The report is first put together in memory, one at a time, which takes milliseconds to seconds. This is charged to no
 * task, and an interrupt of the calling task waits meanwhile. Then it is written, as long as that takes: a reader that
 * does not read keeps no other report waiting, and a task that waits for a reader is interrupted as in any wait. The
 * first call loads the module that stint_profile_write loads.
 *
 * Returns 0, or:
 *   EINVAL     report is NULL, or there is no such kind
 *   ENOTSUP, ELIBACC, EDEADLK  as stint_profile_write
 *   ENOMEM     there is no memory
 *   ECANCELED  the calling task, in STINT_FAIL, is to stop, and nobody reads
 *   ENOSPC, EBADF, ...  as write(): a part has been written, and the report can be written again */
STINT_API int stint_report_write(const stint_report *report, int fd, stint_report_kind kind);

/* Take another reference to a report, or give one back. The report is freed with its last reference. NULL does nothing.
 *
 * Returns report (stint_report_retain). */
STINT_API stint_report *stint_report_retain(stint_report *report);
STINT_API void stint_report_release(stint_report *report);

/* --- Warnings ----------------------------------------------------------------------------------------------------- */

/* A warning tells that a task (stint_options.warn), an account (stint_account_limits.warn) or the process
 * (stint_global_set_warning) has used more than a given part of a limit. Nothing is stopped. The idea is that of an
 * allocator's soft limit, and of GHC's DontKillOnAllocationLimit.
 *
 * The library finds a warning where it looks at the limit. For bytes that is a sample point, which is due at the mark
 * as it is at the limit. For time it is the next sample point after the mark; a task needs no sample point if it is
 * preemptible, has a hook, or sleeps in the library's waits. So the program is warned late or never of a task that
 * loops or sleeps elsewhere. Of a task on several threads, what is known when its own thread looks counts. Walled tasks
 * have the warnings of all of these limits: those of allocation and memory are found in the child, those of wall_ns,
 * run_ns and cpu_ns in the program. Each warning is told once for a task, and once again after its budget has been
 * changed (stint_future_set_budget). */

/* One warning. Later versions may append fields. */
typedef struct stint_warning {
    stint_reason reason; /* why it will be stopped: ALLOCATION_LIMIT, MEMORY_LIMIT, DEADLINE or CPU; an account has
                          * ACCOUNT, the process GLOBAL_MEMORY_LIMIT */
    const char *name; /* the first 63 characters of the task's or the account's; NULL: it has none, or is the process */
    uint64_t used;    /* bytes; for DEADLINE nanoseconds since the submission; for CPU of processor time */
    uint64_t limit;   /* in the same unit */
    bool memory;      /* for ACCOUNT: true is its limit on memory, false that on allocation */
} stint_warning;

/* Is told one warning, which is the library's until the function returns. */
typedef void stint_warning_fn(const stint_warning *warning, void *arg);

/* Have warn(warning, arg) called for each warning of the process from now on, one after the other; NULL: nobody is
 * told. It runs on the library's thread for deadlines and hooks. It must not block, as all of those wait for it. It may
 * change budgets and limits, cancel and submit.
 *
 * Where sixteen warnings wait to be told, further ones are only counted. All are counted in the metric
 * stint_warnings_total, and are in the trace of the thread that found them. A warning that is being told now may still
 * go to the function that was set before. A child of fork(2) has to set its function again.
 *
 * Returns 0, or:
 *   EAGAIN, ENOMEM  the thread for deadlines and hooks cannot be started */
STINT_API int stint_warnings_set(stint_warning_fn *warn, void *arg);

/* --- Profiles ----------------------------------------------------------------------------------------------------- */

/* A memory profile tells which code allocates, how much of it is still there, in which task and for which account. It
 * is built on samples (stint_memprof_start), so it costs little and gives estimates without bias. docs/profiling.md
 * says how to read one. It is written in the format of pprof (github.com/google/pprof), or as collapsed stacks, from
 * which Brendan Gregg's flame graphs and those of flamegraph(1) are drawn.
 *
 * With no change of code, STINT_PROFILE=interval:path in the environment starts a profile with the program, and writes
 * it when the program ends or is sent SIGUSR2. interval is in bytes, or with k or m behind it in KiB or MiB. A path
 * that ends in .collapsed gets collapsed stacks, every other path pprof. %p in the path becomes the process's number. A
 * file that was there is replaced when the new one is complete. An error has no caller to go to, so it becomes one line
 * on standard error. The children of the process have no profile, unless they execute a program. A program that ignores
 * or handles SIGUSR2 keeps it. */

/* How to make a profile. STINT_PROFILE_OPTIONS_INIT makes the struct, with one sample in 512 KiB and 64 frames; it can
 * grow (stint.h). */
typedef struct stint_profile_options {
    size_t size; /* sizeof(stint_profile_options) */

    /* How often a sample is taken: as samples a word of 8 bytes, or as the mean interval in bytes; the other is 0
     * (stint_memprof_options). */
    double rate;
    size_t interval;

    size_t callstack_depth; /* frames of a callstack, at most STINT_MEMPROF_DEPTH_MAX */
    uint64_t seed;          /* of the random numbers, for tests; 0: another each time */
} stint_profile_options;

/* clang-format off */
#ifdef __cplusplus
#define STINT_PROFILE_OPTIONS_INIT stint_sized_<stint_profile_options>(0.0, (size_t)512 << 10, (size_t)64)
#else
#define STINT_PROFILE_OPTIONS_INIT \
    { .size = sizeof(stint_profile_options), .interval = (size_t)512 << 10, .callstack_depth = 64 }
#endif
/* clang-format on */

/* Start a profile; what an earlier one gathered is forgotten. options may be NULL, which means
 * STINT_PROFILE_OPTIONS_INIT. The profile is a tracker as for stint_memprof_start, of which a process has one.
 *
 * Returns 0, or:
 *   EBUSY   a profile is running, of this kind or of stint_memprof_start
 *   ENOMEM  there is no memory
 *   EINVAL, E2BIG, ENOTSUP  as stint_memprof_start */
STINT_API int stint_profile_start(const stint_profile_options *options);

/* Stop the profile. What it gathered can be read and written until the next start; what was in use remains so.
 *
 * Returns 0, or:
 *   EINVAL  no profile is running
 *   EDEADLK, EBUSY  as stint_memprof_stop */
STINT_API int stint_profile_stop(void);

/* The sums of a profile: estimates of the whole, without bias. Bytes are what the meter charges (docs/metering.md), or
 * outside of tasks what it would charge. What is in use has been neither freed nor rolled back.
 * STINT_PROFILE_TOTALS_INIT makes the struct before it is read; it can grow (stint.h). */
typedef struct stint_profile_totals {
    size_t size;            /* sizeof(stint_profile_totals) */
    uint64_t alloc_objects; /* blocks that were allocated */
    uint64_t alloc_bytes;   /* the bytes of these */
    uint64_t inuse_objects; /* blocks that are in use */
    uint64_t inuse_bytes;   /* the bytes of these */
    uint64_t samples;       /* samples that all this rests on: its relative error is about 1 / sqrt(samples) */
    uint64_t lost;          /* samples for whose records there was no memory; they are not in the numbers above */
} stint_profile_totals;

#define STINT_PROFILE_TOTALS_INIT STINT_SIZED_INIT_(stint_profile_totals)

/* Read the sums of a profile, while it runs or after it. They are those of a profile that is written at this moment.
 *
 * Returns 0, or:
 *   EINVAL  totals is NULL or has no size, or no profile was started in this process */
STINT_API int stint_profile_read(stint_profile_totals *totals);

/* In which form stint_profile_write writes a profile. */
typedef enum stint_profile_kind {
    STINT_PROFILE_PPROF = 0, /* profile.proto, gzipped: both what was allocated and what is in use */
    STINT_PROFILE_COLLAPSED, /* a line a stack: its functions from the outermost in, and the bytes allocated there */
    STINT_PROFILE_COLLAPSED_INUSE, /* the same with the bytes that are in use */
} stint_profile_kind;

/* Write the profile to a descriptor, which stays open, while the profile runs or after it. Other threads go on
 * meanwhile. What the call allocates is charged to no task, and not sampled.
 *
 * The profile is first put together in memory, one at a time. This takes milliseconds to seconds, as the symbols of all
 * modules are read, and an interrupt of the calling task waits meanwhile. Then it is written, holding no lock. A task
 * that waits for a reader is interrupted as in any wait. The first call loads the part of the library that writes
 * profiles, a module in the folder stint/ beside the library, and with it protobuf-c, zlib and libdw; they stay loaded.
 *
 * Returns 0, or:
 *   EINVAL     no profile was started, or there is no such kind
 *   ENOTSUP    stint was built without profiles, which need protobuf-c, zlib and libdw
 *   ELIBACC    the module, which must be of the same version as the library, or a library that it needs cannot be
 *              loaded
 *   EDEADLK    the call is in a tracker's callback
 *   ENOMEM     there is no memory
 *   ECANCELED  the calling task, in STINT_FAIL, is to stop, and nobody reads
 *   ENOSPC, EBADF, EAGAIN, EPIPE, ...
 *              as write() (EPIPE where SIGPIPE is ignored): a part has been written, and the profile can be written
 *              again */
STINT_API int stint_profile_write(int fd, stint_profile_kind kind);

/* --- Traces ------------------------------------------------------------------------------------------------------- */

/* A trace shows what every thread did and when, in the JSON trace-event format of Chrome, which Perfetto
 * (ui.perfetto.dev), Chrome itself and others show as a picture. Threads are tracks. Tasks, stolen subtasks, rollbacks
 * and sleeps are slices on them, with what came of each as arguments. Submissions, steals and wake-ups are flows,
 * arrows from one track to another. docs/tracing.md says what is in a trace, and what it costs.
 *
 * With no change of code, STINT_TRACE=path in the environment starts a trace with the program, and completes it when
 * the program ends. %p in the path becomes the process's number, and a file that was there is replaced. An error has no
 * caller to go to, so it becomes one line on standard error. The children of the process have no trace, unless they
 * execute a program.
 *
 * Each thread writes what happens on it into a ring of its own, without a lock. A thread of the library formats and
 * writes it, as the tracers of operating systems do (Linux's ftrace, LTTng; the format is Google's "Trace Event
 * Format"), and takes a twentieth of one processor at most. Where events come faster than that, the ring is full and
 * they are left out, though never half a slice. The trace says how many are missing, where they are missing and at its
 * end. */

/* Start a trace that is written to a descriptor. The caller keeps the descriptor, and leaves it open until
 * stint_trace_stop. A process has one trace.
 *
 * If a program closes the descriptor all the same, and gives its number to another file, that file is not written to:
 * the trace ends there with EBADF. So does that of STINT_TRACE in a program that closes all descriptors. In a child of
 * fork(2) the trace has ended, and the descriptor is not written to.
 *
 * What has begun before, and what a child does, is not in the trace. Times are those of CLOCK_MONOTONIC. Of a task's
 * name 31 bytes count; a task without a name has the module of its function and the place in that. Each thread of which
 * something is written has a ring of 512 KiB from the process's heap, which is kept for the next trace and charged to
 * no task.
 *
 * Returns 0, or:
 *   EINVAL   fd is no descriptor that can be written to
 *   EBUSY    a trace runs
 *   ENOTSUP  mimalloc cannot be used (stint_backend_version)
 *   ENOMEM, EAGAIN  no thread can be started */
STINT_API int stint_trace_start(int fd);

/* Stop the trace: write what is there, and complete it. Slices that have not ended end there, marked as unfinished. The
 * call waits as write() does where the descriptor blocks, and an interrupt that comes meanwhile waits for the end of
 * the call.
 *
 * Returns 0, or:
 *   EINVAL  no trace runs, or it is being stopped
 *   ENOSPC, EFBIG, EPIPE, EAGAIN, EBADF, ...
 *           the first error of write() during the trace. What had been written before it is there, and nothing more;
 *           the trace has ended all the same, and no task has noticed */
STINT_API int stint_trace_stop(void);

/* --- Metrics ------------------------------------------------------------------------------------------------------ */

/* Metrics tell a monitoring system what the process's tasks do, as text in OpenMetrics 1.0, which Prometheus and those
 * that understand it scrape (https://prometheus.io/docs/specs/om/open_metrics_spec/). docs/tracing.md says what each
 * metric means, and what to ask. */

/* Write all metrics of the process to a descriptor, which stays open. There are metrics for every pool, labelled by its
 * name (a second pool of the same name is "name#2" as long as both live); for accounts, by theirs; and for the process.
 * A server sends them as application/openmetrics-text; version=1.0.0; charset=utf-8.
 *
 * Each number is right by itself, at some moment during the call. No counter ever shrinks while what it is labelled by
 * lives. A task is counted when it has ended, before its future is ready, and before stint_run returns. Pools that are
 * being made or destroyed meanwhile may be left out.
 *
 * The first 255 names of accounts get labels of their own, each for all accounts of that name, one after the other.
 * What has another name, or none, is counted with the account that it lies in, and if it lies in none, as "other". Of
 * names 127 bytes count, and in them what is not UTF-8 is replaced.
 *
 * The call waits as write() does where the descriptor blocks, and holds no lock of the library's meanwhile. It
 * allocates nothing in a task's heap, and charges nothing to it. An interrupt of the calling task waits for the end of
 * the call, except where write() would wait for a reader.
 *
 * Returns 0, or:
 *   ENOMEM     there is no memory, and nothing was written
 *   ECANCELED  the calling task, in STINT_FAIL, is to stop, and nobody reads
 *   EBADF, ENOSPC, EFBIG, EAGAIN, EPIPE, ...
 *              as write() (EPIPE where SIGPIPE is ignored or blocked): a part has been written, without the "# EOF"
 *              that ends a whole one */
STINT_API int stint_metrics_write(int fd);

/* --- Samples of allocations --------------------------------------------------------------------------------------- */

/* The statistical memory profiler follows a small random part of all allocations, each with where it was made and what
 * became of it, at a cost too small to notice. The interface is that of OCaml's Memprof (Jourdan; StatMemprof), in C's
 * terms: what Memprof calls the minor heap is a task's heap, and a promotion is the commit of a block when its task
 * ends Ok.
 *
 * Samples fall on the stream of charged bytes (docs/metering.md) as a Poisson process: every byte is as likely as any
 * other. So a block of c charged bytes holds c / interval samples on average. For a block with s samples,
 *
 *     s * interval              estimates its charged bytes,
 *     s * interval / c          estimates 1, the block itself.
 *
 * Summed up over many blocks, both are unbiased. docs/profiling.md tells more, and docs/metering.md has the errors.
 *
 * A process has one profile at a time. Limits know nothing of it: a task's outcome and usage.allocated are the same
 * with a profile and without, and only usage.samples differs. While none runs, nothing costs anything. */

/* What a sampled block belongs to. */
typedef enum stint_memprof_source {
    STINT_MEMPROF_TASK_HEAP = 0, /* a task: the block is committed or rolled back with it */
    STINT_MEMPROF_PROCESS_HEAP, /* the process: made outside of tasks, or between stint_keep_begin and stint_keep_end */
    STINT_MEMPROF_ALIGNED,      /* either of them, at an alignment above 16 that was asked for */
    STINT_MEMPROF_FOREIGN,      /* libc or the loader, for itself */
} stint_memprof_source;

/* A sampled block, just made. All pointers are valid during the call only, except task and account, which live as long
 * as the task. */
typedef struct stint_memprof_allocation {
    uint64_t samples;            /* in this block, at least 1 */
    size_t size;                 /* bytes that were asked for */
    uint64_t charged;            /* bytes that the meter counted for it, on which samples fall: size and more */
    double interval;             /* the mean number of charged bytes from one sample to the next */
    stint_memprof_source source; /* what the block belongs to */
    bool in_task_heap;           /* true: it lies in a task's heap; also told of an aligned block */

    /* Return addresses, the innermost first: the first is where the allocation function was called. There are at most
     * as many as the depth of the options, and fewer where the stack cannot be followed further. */
    void *const *callstack;
    size_t callstack_length;

    const char *task;             /* stint_options.name of the innermost task that has one; NULL: none, or no task */
    const stint_account *account; /* the account of the innermost task that has one; NULL: none, or no task */
} stint_memprof_allocation;

/* What became of a sampled block. */
typedef enum stint_memprof_end {
    STINT_MEMPROF_FREED = 0,   /* free and its like freed it, or a realloc moved it */
    STINT_MEMPROF_ROLLED_BACK, /* it went with the heap of its task, which did not end Ok */
    STINT_MEMPROF_STOPPED,     /* nothing: it lives on, but stint_memprof_stop was called */
} stint_memprof_end;

/* Is told that a sampled block was made, on the thread that made it.
 *
 * Returns the metadata with which the block is followed; or NULL: the block is not followed; or
 * STINT_MEMPROF_INTERRUPT: nor is it, and the innermost task is interrupted at its next safe point with
 * STINT_REASON_TRACKER (outside of tasks, as NULL). */
typedef void *stint_memprof_alloc_fn(const stint_memprof_allocation *allocation, void *arg);

/* Is told that the block's task ended Ok, and that the block lives on in the process's heap. It runs on the thread that
 * ran the task.
 *
 * Returns the metadata from now on; or NULL: the block is followed no more, and no dealloc comes. */
typedef void *stint_memprof_promote_fn(void *metadata, void *arg);

/* Is told the block's end, after which its metadata is not used any more. For STINT_MEMPROF_FREED it runs on the thread
 * that frees the block, before the memory can be used again; for a block that is freed while promote runs, after that
 * and there. */
typedef void stint_memprof_dealloc_fn(void *metadata, stint_memprof_end end, void *arg);

/* The program's part of a profile. A block that alloc follows gets exactly one dealloc, and before that one promote if
 * it is in a task's heap that is committed first.
 *
 * While a callback runs, sampling is off for its thread; what it allocates comes from the process's heap and is charged
 * to no task; interrupts of its task wait. Callbacks may run on several threads at once. They are called in the midst
 * of an allocation or a free, whose caller may hold any lock. So they call only such functions of libc as are safe
 * under a lock of stdio or the loader, and take no lock that is also held around a metered allocation. They must
 * return, and may not run a task. The dealloc of a block that a callback frees comes after the callback's end. */
typedef struct stint_memprof_tracker {
    stint_memprof_alloc_fn *alloc;     /* must be given */
    stint_memprof_promote_fn *promote; /* may be NULL: as if it returned metadata */
    stint_memprof_dealloc_fn *dealloc; /* may be NULL */
} stint_memprof_tracker;

/* Interrupt the task: what alloc returns to stop the task that made the block. So programs write limits of their own,
 * such as so many blocks of a size or from one place. This is what led from StatMemprof to memprof-limits. */
#define STINT_MEMPROF_INTERRUPT ((void *)(uintptr_t)-1)

/* How to follow allocations. STINT_MEMPROF_OPTIONS_INIT makes the struct, with one sample in 512 KiB and 64 frames. It
 * can grow (stint.h), while the tracker never does. */
typedef struct stint_memprof_options {
    size_t size; /* sizeof(stint_memprof_options) */

    /* How often a sample is taken: as samples a word of 8 bytes, as in Memprof, above 0 and at most 1; or as the mean
     * interval between samples in bytes, at least 8. Exactly one of the two is given, the other is 0. */
    double rate;
    size_t interval;

    size_t callstack_depth;        /* return addresses, at most STINT_MEMPROF_DEPTH_MAX; 0: none */
    stint_memprof_tracker tracker; /* the callbacks */
    void *arg;                     /* is given to the callbacks */
    uint64_t seed;                 /* of the random numbers, for tests; 0: another in each profile */
} stint_memprof_options;

/* The most frames of a callstack. */
#define STINT_MEMPROF_DEPTH_MAX 1024

/* Options with one sample in 512 KiB, and 64 frames. */
/* clang-format off */
#ifdef __cplusplus
#define STINT_MEMPROF_OPTIONS_INIT stint_sized_<stint_memprof_options>(0.0, (size_t)512 << 10, (size_t)64)
#else
#define STINT_MEMPROF_OPTIONS_INIT \
    { .size = sizeof(stint_memprof_options), .interval = (size_t)512 << 10, .callstack_depth = 64 }
#endif
/* clang-format on */

/* Start a profile of allocations. It sees the calling thread's allocations and those of every task from now on. Another
 * thread that is in no task joins it after some allocations: when mimalloc next leaves its own fast path, usually
 * within 64 KiB. options are copied. The child of a fork(2) has no profile; it can start one.
 *
 * Returns 0, or:
 *   EINVAL   options or alloc is NULL, the rate is not in (0, 1], the interval is below 8, both or none are given, the
 *            depth is too large, or the options have no size
 *   E2BIG    the options set a field that this library is too old to know
 *   EBUSY    a profile is running, or being stopped, or the call is in a callback of one
 *   ENOTSUP  mimalloc cannot be used (stint_backend_version)
 *   ENOMEM   there is no memory */
STINT_API int stint_memprof_start(const stint_memprof_options *options);

/* Stop the profile of allocations: wait for the callbacks that run on other threads, then end what is still followed,
 * with STINT_MEMPROF_STOPPED, on this thread. After it no callback runs or will run. An interrupt of the calling task
 * waits.
 *
 * Returns 0, or:
 *   EINVAL   no profile is running
 *   EDEADLK  the call is in a callback; nothing was done
 *   EBUSY    another thread is starting or stopping a profile */
STINT_API int stint_memprof_stop(void);

STINT_END_DECLS

#endif
