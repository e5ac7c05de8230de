/* SPDX-License-Identifier: MIT
 *
 * What the library does around a fork(2): one list, for the whole library. Its three columns are those of
 * pthread_atfork, which is called once. Called by libc, on the thread that forks.
 *
 * To add something: a row, with functions that are declared beside what they are about. A lock that is taken for a few
 * instructions is rather one of alloc/base/process.h, which needs no row. A page that a function writes to is copied:
 * process.h says how to write less. */
#include "forks.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "alloc/base/process.h"
#include "alloc/base/system.h"
#include "alloc/base/thread.h"
#include "alloc/charge/account.h"
#include "alloc/charge/global.h"
#include "alloc/interrupt/override_lock.h"
#include "alloc/interrupt/signals.h"
#include "alloc/interrupt/watch.h"
#include "alloc/profile/memprof.h"
#include "alloc/profile/profile.h"
#include "alloc/report/report.h"
#include "alloc/rollback/free.h"
#include "alloc/rollback/kept.h"
#include "alloc/rollback/retired.h"
#include "alloc/rollback/undo.h"
#include "alloc/trace/trace.h"
#include "executor/base/outer_lock.h"
#include "executor/pool/pools.h"
#include "executor/wall/wall.h"
#include "executor/worker/deadlock.h"

/* Before the fork(2) from the last row to the first, after it from the first to the last. So locks are taken in the
 * order in which they are taken elsewhere: the executor's, under which any other may be; the watch's, under which it
 * looks at tasks; those that nobody holds for long. */
static const struct row {
    const char *what;
    void (*prepare)(void); /* in the parent, before it */
    void (*parent)(void);  /* in the parent, after it */
    void (*child)(void);   /* in the child */
} rows[] = {
    /* First: it counts forks, which the next ones may ask. */
    { .what = "who frees blocks", .child = sti_freeing_in_child },
    /* Given before what follows, which may allocate and ask the loader. */
    { "short locks", sti_quiet_before_fork, sti_quiet_after_fork, sti_quiet_in_child },
    { .what = "descriptors of /proc, and threads of the library's own", .child = sti_system_in_child },
    /* Before all that goes through the threads' records. */
    { .what = "records of threads", .child = sti_thread_in_child },
    { .what = "accounts", .child = sti_account_in_child },
    { .what = "giving memory back", .child = sti_global_in_child },
    { .what = "blocked signals", .child = sti_signals_in_child },
    { "the watch", sti_watch_before_fork, sti_watch_after_fork, sti_watch_in_child },
    { .what = "Memprof", .child = sti_memprof_in_child },
    { .what = "the profile", .child = sti_profile_in_child },
    { .what = "writing reports", .child = sti_report_in_child },
    { .what = "what is to be undone", .child = sti_undo_in_child },
    { .what = "heaps in quarantine", .child = sti_quarantine_in_child },
    { .what = "heaps without an owner", .child = sti_retired_in_child },
    { .what = "the trace", .child = sti_trace_in_child },
#if STI_OVERRIDES
    { .what = "mimalloc's locks", .child = sti_override_lock_in_child },
#endif
    { .what = "waits that may never end", .child = sti_deadlock_in_child },
    { .what = "walls", .child = sti_walls_in_child },
    { .what = "pools", .child = sti_pools_in_child },
    { "the executor's locks", sti_outer_before_fork, sti_outer_after_fork, sti_outer_after_fork },
};

#define ROWS (sizeof rows / sizeof *rows)

static STI_FORK_HANDLER void before_fork(void)
{
    sti_fork_takes_locks = !sti_process_has_one_thread();
    for (size_t i = ROWS; i-- > 0;) {
        if (rows[i].prepare != NULL)
            rows[i].prepare();
    }
}

static STI_FORK_HANDLER void after_fork_in_parent(void)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].parent != NULL)
            rows[i].parent();
    }
}

static STI_FORK_HANDLER void after_fork_in_child(void)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].child != NULL)
            rows[i].child();
    }
}

void sti_forks_start(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}
