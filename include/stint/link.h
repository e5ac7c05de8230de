/* SPDX-License-Identifier: MIT
 *
 * Whether this program is linked so that stint can keep its promises. A library that replaces malloc, as tcmalloc and
 * jemalloc do, can do so only where the loader finds its functions first. Where it does not (stint came by dlopen, or
 * behind libc in the search order, or behind another malloc), blocks of malloc are neither charged nor rolled back, and
 * a task may be interrupted while it holds a lock. Then no task is run, unless the caller allows it
 * (STINT_ALLOW_UNMETERED). docs/machines.md has each way of linking. */
#ifndef STINT_LINK_H
#define STINT_LINK_H

#include <stint/api.h>

STINT_BEGIN_DECLS

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

/* In the flags of stint_options and stint_pool_options: go ahead where stint_link_check says ENOTSUP. Then limits and
 * rollbacks cover the stint_malloc family and nothing else, a block of stint_malloc must be freed by stint_free, and a
 * task that may be interrupted must hold no lock but a stint_mutex where it is not masked. */
#define STINT_ALLOW_UNMETERED 1U

STINT_END_DECLS

#endif
