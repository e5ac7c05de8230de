/* SPDX-License-Identifier: MIT
 *
 * What the library does around a fork(2): one list, for the whole library. Its three columns are those of
 * pthread_atfork, which is called once. Called by libc, on the thread that forks.
 *
 * To add something: a row, with functions that are declared beside what they are about. A page that a function writes
 * to is copied: process.h says how to write less. */
#include "forks.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "alloc/heap/free.h"
#include "alloc/interpose/override_lock.h"
#include "alloc/interrupt/signals.h"
#include "alloc/interrupt/watch.h"
#include "alloc/observe/memprof.h"
#include "alloc/observe/profile.h"
#include "alloc/observe/trace.h"
#include "alloc/platform/process.h"
#include "alloc/platform/system.h"
#include "alloc/platform/thread.h"
#include "alloc/rollback/quarantine.h"
#include "executor/wall/wall.h"
#include "executor/worker/worker.h"

/* Nothing of the library's is held over a fork(2) but one lock of the walls', and, if it is to be had, that of threads
 * that look at modules: a thread that another library's handler waits for may need any other. A thread that looks at
 * modules may hold the walls' lock: so that lock comes first. Each column is called from the first row to the last;
 * before it is known whether the child is a whole process (process.h), and a whole process that has not used the
 * library has nothing to do. */
static const struct row {
    const char *name;
    void (*prepare)(void); /* in the parent, before it */
    void (*parent)(void);  /* in the parent, after it */
    void (*child)(void);   /* in the child */
} rows[] = {
    { .name = "giving blocks back", .child = sti_free_in_child },
#if STI_OVERRIDES
    { .name = "mimalloc's locks", .child = sti_override_lock_in_child },
#endif
    { .name = "the thread's record", .child = sti_thread_in_child },
    { .name = "the worker", .child = sti_worker_in_child },
    { .name = "the process's size in memory", .child = sti_system_in_child },
    { .name = "blocked signals", .child = sti_signals_in_child },
    { .name = "processor time", .prepare = sti_cpu_before_fork, .child = sti_cpu_in_child },
    { .name = "the watch", .child = sti_watch_in_child },
    { .name = "Memprof", .child = sti_memprof_in_child },
    { .name = "the profile", .child = sti_profile_in_child },
    { .name = "the trace", .child = sti_trace_in_child },
    { .name = "heaps in quarantine", .child = sti_quarantine_in_child },
    { "walls", sti_walls_before_fork, sti_walls_after_fork, sti_walls_in_child },
    { "looking at modules", sti_modules_before_fork, sti_modules_after_fork, sti_modules_in_child },
};

#define ROWS (sizeof rows / sizeof *rows)

static _Thread_local bool is_used; /* as it was before the fork */

static STI_FORK_HANDLER void before_fork(void)
{
    sti_process_before_fork();
    if (is_used != sti_process_is_used())
        is_used = sti_process_is_used();
    for (size_t i = 0; is_used && i < ROWS; i++) {
        if (rows[i].prepare != NULL)
            rows[i].prepare();
    }
}

static STI_FORK_HANDLER void after_fork_in_parent(void)
{
    for (size_t i = 0; is_used && i < ROWS; i++) {
        if (rows[i].parent != NULL)
            rows[i].parent();
    }
}

static STI_FORK_HANDLER void after_fork_in_child(void)
{
    sti_process_in_child();
    bool has_to = is_used || sti_process_is_partial();
    for (size_t i = 0; has_to && i < ROWS; i++) {
        if (rows[i].child != NULL)
            rows[i].child();
    }
}

void sti_forks_start(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}
