/* SPDX-License-Identifier: MIT
 *
 * stint runs tasks with budgets. A work-stealing pool runs the tasks. What a task allocates, in its own code and in
 * every library that it calls, is charged to its budget. A spent budget, a deadline or a cancellation token interrupts
 * the task, and its future resolves to Ok, Error or Cancelled. This header includes all others.
 *
 *     #include <stdio.h>
 *     #include <stint/stint.h>
 *
 *     int main(void)
 *     {
 *         stint_link_report report = STINT_LINK_REPORT_INIT;
 *         if (stint_link_check(&report) != 0) // is all of this true in this program?
 *             return 1;
 *         printf("stint %s\n", stint_version());
 *         return 0;
 *     }
 *
 * One rule is to be remembered: a task's memory is a transaction. Ok commits what the task left allocated. Error and
 * Cancelled roll it back.
 *
 * Errors. A function that can fail returns 0 or an errno value. The library never prints (except for what goes wrong
 * with the variables STINT_PROFILE and STINT_TRACE, see observe.h), never exits, and does not abort on a caller's
 * mistake. One exception is asked for: with STINT_DEBUG=1 in the environment the process ends where it frees what is no
 * block.
 *
 * Threads. Any thread may call a function, in a task, in a callback or outside, unless the function's comment says
 * otherwise. A signal handler may call only the functions whose comments allow it.
 *
 * Memory. What the library makes for a task's calls (futures, tokens, groups and so on) lies in the process's memory
 * and outlives the task, but it counts for the task's allocation limit. So ENOMEM may also mean that nothing is left of
 * that limit, and each such call is a sample point (interrupt.h).
 *
 * Names. A function is called stint_noun_verb, where the noun is what it acts upon (stint_pool_create,
 * stint_roots_set_scan), or stint_noun_property where it reads something; "is" asks what is true or false. Functions of
 * the calling task have no noun. The library's basic words stand alone: run, submit, fork, join, for, reduce, sort,
 * fail, finish, checkpoint, mask, unmask, with, when_all, when_any, and malloc's family. Types of functions end in _fn,
 * and file descriptors are called fd. The object is the first argument; what a call makes or fills in is the last. A
 * name that ends in an underscore is not for use.
 *
 * Structs. A struct that can grow begins with a size. Such are the options and limits that a program fills in, and the
 * numbers that it asks for. A macro makes each of them: stint_options options = STINT_OPTIONS_INIT. Then the program
 * sets fields by their names. A list of fields has to begin with .size = sizeof(stint_options). The size tells the
 * library which fields the program was compiled with, so either of the two may be the newer one:
 *
 *   options  An option that the program does not know counts as 0, and 0 always means what was so before the option
 *            existed. E2BIG refuses options of which one is set that this library is too old to know.
 *   numbers  Those that the program does not know are left out. Those that the library does not know are 0.
 *
 * EINVAL refuses a struct without its size, such as one that was zeroed by hand. After both errors nothing has been
 * done. Structs without a size never change, except that a later version may append fields to a struct that it passes
 * to a callback. In C++, all code that uses the classes of stint.hpp has to be compiled with the same version. The idea
 * of the size is that of Linux's clone3 and openat2.
 *
 * Callbacks. A function that a program gives to the library has to return, unless an interrupt leaves it. An exception
 * that reaches the library ends the program by std::terminate, as in the function of a std::thread (without a C++
 * runtime by abort). The classes of stint.hpp catch what C++ tasks throw. A longjmp out of a callback ends the program
 * in the same way. The end of the thread (pthread_exit, pthread_cancel) may pass through a stint_run, which is then
 * rolled back, and through the release of a guard; in a task of a pool and in any other callback it ends the program. A
 * pthread_cancel waits until such a callback has returned. The page of stint_run says what a longjmp out of a task
 * does.
 *
 * fork(2). The child of a process with one thread is a whole process: its open scopes are as they were, while a profile
 * and a trace have ended, and a wall is the parent's. The library's own threads count: a pool's workers, and the thread
 * that the first deadline, hook, preemptible task, profile or trace starts. The child of a process with several threads
 * is only a part of one, in which stint cannot be used until the child calls execve. There each function that can fail
 * returns ENOTSUP, and the others do nothing. malloc is libc's own there, free leaves a block from before the fork
 * alone, and realloc copies it. If a task forked, its stint_run in the child returns ENOTSUP as soon as the task's
 * function returns; where the library called the function on a thread of its own, that thread ends. Code that needs
 * processes belongs behind a wall (wall.h), which a program makes before it makes threads. */
#ifndef STINT_STINT_H
#define STINT_STINT_H

#include <stint/account.h>
#include <stint/fork.h>
#include <stint/future.h>
#include <stint/interrupt.h>
#include <stint/later.h>
#include <stint/memory.h>
#include <stint/observe.h>
#include <stint/pool.h>
#include <stint/task.h>
#include <stint/token.h>
#include <stint/wall.h>

STINT_BEGIN_DECLS

/* --- The version -------------------------------------------------------------------------------------------------- */

/* The macros tell the version of the headers, the functions that of the library which is linked. */

/* The version of the headers. STINT_VERSION is all three numbers as a string. */
#define STINT_VERSION_MAJOR 0
#define STINT_VERSION_MINOR 1
#define STINT_VERSION_PATCH 0
#define STINT_VERSION "0.1.0"

/* Tell the version of the library that is linked.
 *
 * Returns a static string such as "0.1.0". */
STINT_API const char *stint_version(void);

/* Tell the version of mimalloc, behind the heaps, that the program runs with. stint needs mimalloc 3.3 or later of
 * version 3. Where the loader finds another one, stint_run and stint_pool_create return ENOTSUP.
 *
 * Returns the version in mimalloc's own digits: 30601 is 3.6.1. */
STINT_API int stint_backend_version(void);

/* Tell whether this library replaces malloc and its family in the program. If it does, libraries that know nothing of
 * stint are metered: all those whose malloc the loader binds. A library with an allocator of its own is not metered
 * (docs/machines.md).
 *
 * Returns false in a build that replaces nothing (-Doverrides=false), and where the program uses the malloc of another
 * library. Then only the stint_malloc family is metered. */
STINT_API bool stint_malloc_is_overridden(void);

/* --- The link ----------------------------------------------------------------------------------------------------- */

/* A library that replaces malloc, as tcmalloc and jemalloc do, can do so only where the loader finds its functions
 * first. That is not so where stint came by dlopen, or stands behind libc or another malloc in the search order. Blocks
 * of malloc are then neither charged nor rolled back, and a task may be interrupted while it holds a lock. So the
 * library runs no task there, unless the caller allows it (STINT_ALLOW_UNMETERED). docs/machines.md has each way of
 * linking. */

/* What stint_link_check has found out. STINT_LINK_REPORT_INIT makes the struct, which can grow (stint.h). */
typedef struct stint_link_report {
    size_t size; /* sizeof(stint_link_report) */

    /* True: the malloc, free, operator new and delete, mmap and munmap that the program uses are this library's. */
    bool metered;

    bool locked; /* true: so is its pthread_mutex_lock, and the library sees the locks that a task holds */

    /* True: STINT_UNWIND may be used. False: a task with STINT_UNWIND is refused with ENOTSUP, for one of these
     * reasons:
     *   - std::terminate and std::set_terminate are another library's, as where a program is linked with
     *     -static-libstdc++, or with libstdc++ before stint; or modules may not find this library's, in a program that
     *     is linked with libstint.a by hand (docs/machines.md). This library's turn an unwind into a jump where C++
     *     would end the process.
     *   - libgcc_s.so.1, by which code is unwound, cannot be loaded: the process has no descriptor left, or it has
     *     confined itself (chroot, seccomp). stint_link_check and the first task with STINT_UNWIND load it, and try
     *     again if that failed.
     *   - libgcc unwinds otherwise than it should: then off says so. */
    bool unwinds;

    /* The first function that is another library's, such as "malloc" or "operator new". NULL: there is none, or this
     * library was built to replace none (stint_malloc_is_overridden). */
    const char *function;

    /* The file of the module that has this function; "" is the program. The string is valid while that module is
     * loaded. NULL: there is no such function, or it was replaced where no module shows. */
    const char *module;

    /* What does not work here. The library relies on some things that libc, mimalloc and the unwinder do not promise,
     * and tries them out at its start. For each that fails, the string has a line "what: why", and what needs it is
     * off. A line that begins with "all tasks" means that no task is run. NULL: everything works. The string lives as
     * long as the process. */
    const char *off;
} stint_link_report;

#define STINT_LINK_REPORT_INIT STINT_SIZED_INIT_(stint_link_report)

/* Find out whether this program is linked so that stint can keep its promises. The library looks at its start too, and
 * again in the first call that runs a task. *report is filled unless EINVAL is returned.
 *
 * Returns 0 if tasks can be run: all functions are this library's, or it was built to replace none. Otherwise:
 *   EINVAL   report is NULL, or has no size
 *   ENOTSUP  some functions are another library's: stint_run, stint_pool_create and stint_submit then return ENOTSUP
 *            for options without STINT_ALLOW_UNMETERED. Or mimalloc cannot be used (stint_backend_version, or
 *            report->off says so): then they do so for any options */
STINT_API int stint_link_check(stint_link_report *report);

STINT_END_DECLS

#endif
