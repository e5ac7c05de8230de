/* SPDX-License-Identifier: MIT
 *
 * stint: tasks with budgets.
 *
 * A work-stealing pool runs tasks; each has its own budget; what a task allocates, in its own code and in every library
 * it calls, is charged to that budget; a token or an exhausted budget interrupts it; its future resolves to Ok, Error
 * or Cancelled. This program asks whether it is linked so that all of that holds:
 *
 *     #include <stdio.h>
 *     #include <stint/stint.h>
 *
 *     int main(void)
 *     {
 *         stint_link_report report = STINT_LINK_REPORT_INIT;
 *         if (stint_link_check(&report) != 0)
 *             return 1;
 *         printf("stint %s\n", stint_version());
 *         return 0;
 *     }
 *
 * The one rule to remember: a task's memory is a transaction. Ok commits what the task left allocated; Error and
 * Cancelled roll it back.
 *
 * Names: stint_noun_verb, the noun being what is acted upon (stint_pool_create, stint_roots_set_scan);
 * stint_noun_property for what is read; "is" for what is true or false. Only the calling task goes without saying, and
 * the words of the library itself are alone: stint_run, submit, fork, join, for, reduce, sort, fail, finish,
 * checkpoint, mask, unmask, with, when_all, when_any, and malloc's family. Types of functions end in _fn, file
 * descriptors are fd. The object comes first, what a call makes or fills in last. A name that ends in an underscore is
 * not for use.
 *
 * Structs that can grow begin with a size: the options and limits that a program fills in, and the numbers that it asks
 * for. Make each by its macro, and then set fields by their names; or name the size first in a list of fields:
 *
 *     stint_options options = STINT_OPTIONS_INIT;
 *     stint_options options = { .size = sizeof(stint_options), .name = "parse" };
 *
 * The size tells the library which fields the program was compiled with, so that either may be the newer one. An option
 * that the program does not know counts as 0, which always means what was so before there was that option. Of numbers,
 * those that the program does not know are left out, and those that the library does not know are 0. A struct without
 * its size, such as one that was zeroed by hand, is refused with EINVAL by every function that takes it; options of
 * which one is set that this library is too old to know, with E2BIG. Either way nothing has been done. The idea is that
 * of Linux's clone3 and openat2. Structs without a size stay as they are, but that what a callback is given may have
 * more at its end. In C++, compile all that uses the classes of stint.hpp with the same version.
 *
 * A function that is given to the library returns, unless an interrupt leaves it. An exception that comes to the
 * library ends the program by std::terminate, as one out of the function of a std::thread does; stint.hpp catches what
 * C++ tasks throw. The end of the thread (pthread_exit, pthread_cancel) passes a stint_run, which is rolled back, and
 * the release of a guard; in a task of a pool and in any other callback it ends the program, as an exception does
 * (without a C++ runtime by abort()), and so does a longjmp out of a callback. But a pthread_cancel waits until such a
 * callback has returned. Of a longjmp out of a task see stint_run.
 *
 * This header includes all the others. Functions that can fail return 0 or an errno value; the library never prints
 * (but for what goes wrong with STINT_PROFILE, see stint/observe.h), never exits and never aborts on a caller's
 * mistake, but for one: with STINT_DEBUG=1 in the environment the process ends where it frees what is no block. Each
 * function says from which threads it may be called; none may be called from a signal handler, but for those that say
 * so.
 *
 * fork(2). The child of a process with one thread is a whole process, with its open scopes as they were; a profile and
 * a trace have ended there, and a wall is the parent's. Threads of the library's own count: a pool's workers, and the
 * one that a first deadline, hook, preemptible task, profile or trace starts. The child of a process with several
 * threads is a part of one, of which nothing can be used until it calls execve: each function that returns an error
 * says ENOTSUP, the others do nothing. There malloc is libc's own, free leaves a block from before the fork as it is,
 * and realloc copies it. A task that has forked is in no scope there: stint_run returns ENOTSUP when its function
 * returns; the thread of any other function that this library has called ends when that returns. For code that needs
 * processes there is the wall (wall.h), which is made before threads are.
 *
 * What the library makes for a task's calls (futures, tokens, groups, ...) lies in the process's memory and outlives
 * the task, but counts for its allocation limit: so ENOMEM may also mean that there is none left of that, and the call
 * is a sample point. */
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

/* Which stint this is: the headers' version as macros, the linked library's by a call. */

#define STINT_VERSION_MAJOR 0
#define STINT_VERSION_MINOR 1
#define STINT_VERSION_PATCH 0
#define STINT_VERSION "0.1.0"

/* The version of the library that is linked, for instance "0.1.0". Any thread. */
STINT_API const char *stint_version(void);

/* The version of mimalloc behind the heaps, in mimalloc's own digits (30601 is 3.6.1): of the one that runs. stint was
 * compiled for 3.3 or later, and where the loader finds one that is older than that or of another major version,
 * stint_run and stint_pool_create return ENOTSUP. Any thread. */
STINT_API int stint_backend_version(void);

/* Whether malloc and its family are replaced in this program, so that libraries which know nothing of stint are
 * metered: those whose malloc is bound by the loader, not those with an allocator of their own (docs/machines.md).
 * False in a build that replaces none, and where the program uses another's (stint.h): only the stint_malloc family is
 * metered then. Any thread. */
STINT_API bool stint_malloc_is_overridden(void);

/* --- The link ----------------------------------------------------------------------------------------------------- */

/* Whether this program is linked so that stint can keep its promises. A library that replaces malloc, as tcmalloc and
 * jemalloc do, can do so only where the loader finds its functions first. Where it does not (stint came by dlopen, or
 * behind libc in the search order, or behind another malloc), blocks of malloc are neither charged nor rolled back, and
 * a task may be interrupted while it holds a lock. Then no task is run, unless the caller allows it
 * (STINT_ALLOW_UNMETERED). docs/machines.md has each way of linking. */

/* Made by STINT_LINK_REPORT_INIT before it is filled; it can grow: stint.h. */
typedef struct stint_link_report {
    size_t size; /* sizeof(stint_link_report) */

    /* The malloc, free, operator new and delete, mmap and munmap that the program uses are this library's. */
    bool metered;
    bool locked; /* and so is its pthread_mutex_lock: what a task locks is seen */

    /* STINT_UNWIND may be used: std::terminate and std::set_terminate are this library's, which turns an unwind into a
     * jump where C++ would end the process. They are another's where a program is linked with -static-libstdc++, or
     * with libstdc++ before stint: there a task with that option is refused with ENOTSUP. */
    bool unwinds;

    /* The first function that is another's, as in "malloc" or "operator new"; NULL: none is, or this library was built
     * to replace none (stint_malloc_is_overridden). */
    const char *function;

    /* The file of the module that has it, the program's own is ""; NULL: there is no such function, or it was replaced
     * where no module shows. Valid while that module is loaded. */
    const char *module;

    /* The library knows some things of libc, mimalloc and the unwinder that they do not promise, and tries them out.
     * Where one is not so, what needs it is off: "what: why" and a line feed for each; NULL: nothing is. What begins
     * with "all tasks" is refused. Of the process. */
    const char *off;
} stint_link_report;

#define STINT_LINK_REPORT_INIT STINT_SIZED_INIT_(stint_link_report)

/* Find out whose functions the program uses, and fill *report. The library does so at its start too, and again in the
 * first call that runs a task.
 *
 * 0: all are this library's, or it was built to replace none, so that stint_run and pools can be used. ENOTSUP:
 * stint_run, stint_pool_create and stint_submit return this for options without STINT_ALLOW_UNMETERED; or for any,
 * where this mimalloc cannot be used (stint_backend_version, or off says so). EINVAL: report is NULL, or has no size.
 * Any thread; not from signal handlers. */
STINT_API int stint_link_check(stint_link_report *report);

STINT_END_DECLS

#endif
