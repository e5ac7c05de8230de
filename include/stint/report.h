/* SPDX-License-Identifier: MIT
 *
 * The post-mortem: where a task was that did not end Ok, what it had taken, and who held it. A report is asked for by
 * stint_options.report, of a task or, for all of a pool's tasks, by stint_pool_options.report. docs/reports.md shows
 * one and says how it is read.
 *
 *   how     of a walled task (wall.h) whose process has ended: its signal, with the address and the instruction of a
 *           fault, or its exit status
 *   where   the callstack at which the limit was found passed or the token set, and the one at which the task was left
 *           if that was later, with what its interrupt had to wait for until then
 *   when    up to 64 points in its life: bytes held, time, and processor time
 *   what    STINT_REPORT_HEAP: its blocks by size, what they begin with, and the largest ones
 *   who     STINT_REPORT_HEAP, of a task with stint_options.sample_rate, or else while a profile runs (profile.h): the
 *           callstacks whose blocks it held
 *   kept    the variables that held blocks of its back from the rollback (roots.h)
 *
 * Taken down are addresses and numbers, at the moment of the stop: for STINT_REPORT_STACK in some 20 microseconds, for
 * STINT_REPORT_HEAP in up to a millisecond more, and as much again for each GiB of small blocks. Nothing of it lies in
 * the task's heap or is charged to it. A task that ends Ok costs a clock's reading whenever its memory is measured, and
 * nothing else. Names are looked up when the report is written.
 *
 * Why a report: a post-mortem in place of a core file, taken in the process that goes on, at the one moment when the
 * heap of the task is all there and nobody works in it. */
#ifndef STINT_REPORT_H
#define STINT_REPORT_H

#include <stint/future.h>

STINT_BEGIN_DECLS

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
    STINT_REPORT_PPROF,    /* a profile of what it held (profile.h): by its holders, or else by where it was stopped */
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
 * are counted in stint_warnings_total (metrics.h), and are in the trace of the thread that found them (trace.h). A
 * child of fork(2) has to set it again. One that is being told now may still be told to what was set before.
 *
 * 0; EAGAIN, ENOMEM: that thread could not be started. Any thread, also in warn. */
STINT_API int stint_warnings_set(stint_warning_fn *warn, void *arg);

STINT_END_DECLS

#endif
