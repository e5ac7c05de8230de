/* SPDX-License-Identifier: MIT
 *
 * The shares of groups that threads keep: what stolen subtasks left there, until the task's outcome is known; see
 * share.h. And the end of a thread, with all that it keeps. Each function says whose thread it is for.
 *
 * A heap can be ended by its own thread only. So each share waits on its thread for what the task's own thread decides.
 * That one writes it into the share and puts it into the thread's inbox; the thread takes it out, does that, and frees
 * it. A thread that ends waits for its inbox to be empty. By then its shares have no memory left
 * (sti_subtask_undecided): mimalloc has given up the thread's pages before, so that nothing in them could be rolled
 * back.
 *
 * The list of a group's shares is pushed to while stolen subtasks begin, and walked when all of them have ended. The
 * inbox is pushed to by any thread and taken out whole by its own. For both: release to push, acquire to read. Whoever
 * pushed a share does not touch it again. */
#include "share.h"

#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <unistd.h>

#include "alloc/heap/heap.h"
#include "alloc/heap/held.h"
#include "alloc/heap/mapping.h"
#include "alloc/heap/retired.h"
#include "alloc/interrupt/boundary.h"
#include "alloc/interrupt/forks.h"
#include "alloc/interrupt/stack.h"
#include "alloc/interrupt/watch.h"
#include "alloc/meter/global.h"
#include "alloc/meter/shared_budget.h"
#include "alloc/platform/backend.h"
#include "alloc/platform/libc.h"
#include "alloc/platform/module.h"
#include "alloc/platform/process.h"
#include "alloc/platform/reporting.h"
#include "alloc/platform/thread.h"
#include "alloc/rollback/quarantine.h"
#include "alloc/rollback/rollback.h"

static struct sti_share *make_share(struct sti_group *group, struct sti_thread *thread)
{
    struct sti_share *share = sti_process_malloc(sizeof *share);
    if (share == NULL)
        return NULL;
    *share = (struct sti_share){ .group = group, .thread = thread, .next_of_thread = thread->shares };
    thread->shares = share;
    atomic_fetch_add_explicit(&group->references, 1, memory_order_relaxed);
    share->next = atomic_load_explicit(&group->shares, memory_order_relaxed);
    /* Whoever finds it on the list sees it whole; seq_cst as for a record (thread.h). */
    while (!atomic_compare_exchange_weak_explicit(&group->shares, &share->next, share, memory_order_seq_cst,
                                                  memory_order_relaxed))
        ;
    return share;
}

struct sti_share *sti_share_take(struct sti_group *group, struct sti_thread *thread)
{
    struct sti_share *share = thread->shares;
    while (share != NULL && (share->group != group || share->runs))
        share = share->next_of_thread;
    if (share == NULL)
        share = make_share(group, thread);
    if (share != NULL)
        share->runs = true;
    return share;
}

static void share_send(struct sti_share *share)
{
    struct sti_thread *thread = share->thread;
    bool is_urgent = share->heaps != NULL || share->mapped != NULL;
    share->next_in_inbox = atomic_load_explicit(&thread->inbox, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&thread->inbox, &share->next_in_inbox, share, memory_order_release,
                                                  memory_order_relaxed))
        ;
    if (is_urgent)
        sti_forks_wake(thread);
}

void sti_group_release(struct sti_group *group)
{
    /* acq_rel: the last one sees that the others are done with it. */
    if (atomic_fetch_sub_explicit(&group->references, 1, memory_order_acq_rel) > 1)
        return;
    sti_reporting_drop(&group->interrupt);
    sti_process_free(group);
}

void sti_share_decide(struct sti_group *group, bool commits)
{
    struct sti_share *share = atomic_exchange_explicit(&group->shares, NULL, memory_order_acquire);
    while (share != NULL) {
        struct sti_share *next = share->next;
        share->commits = commits;
        share_send(share);
        share = next;
    }
}

static void share_take_off(struct sti_thread *thread, const struct sti_share *share)
{
    struct sti_share **link = &thread->shares;
    while (*link != share)
        link = &(*link)->next_of_thread;
    *link = share->next_of_thread;
}

static void carry_out(struct sti_thread *thread, struct sti_share *share)
{
    share_take_off(thread, share);
    if (share->commits) {
        sti_mapped_commit(&share->mapped, NULL);
        sti_heap_commit(thread, share->heaps);
    } else {
        share->heaps = sti_mapped_take(&share->mapped, share->heaps);
        sti_heap_rollback(thread, share->heaps, share->group->task);
        if (sti_group_tripped(share->group) == STINT_REASON_GLOBAL_MEMORY_LIMIT)
            sti_process_collect();
        else
            sti_rolled_back(share->held);
    }
    sti_group_release(share->group);
    sti_process_free(share);
}

void sti_share_collect(struct sti_thread *thread)
{
    struct sti_share *share = atomic_exchange_explicit(&thread->inbox, NULL, memory_order_acquire);
    while (share != NULL) {
        struct sti_share *next = share->next_in_inbox;
        carry_out(thread, share);
        share = next;
    }
}

static void await_shares(struct sti_thread *thread)
{
    while (thread->shares != NULL) {
        sti_share_collect(thread);
        sched_yield();
    }
}

/* --- The end of a thread that has a record (thread.h): what it leaves is ended, then the record is handed on. Its
 * thread. --- */

static bool has_key; /* from the start on, */
static pthread_key_t record_key;
static char unrecorded; /* what stands for the record of a thread that has none */

/* mimalloc may have given up the thread's parts of its heaps already. */
static void shares_end_thread(void *record)
{
    struct sti_thread *thread = record;
    sti_boundary_end_thread();
    if (gettid() == getpid())
        sti_watch_main_thread_ends();
    if (record == &unrecorded) {
        sti_thread_end_unrecorded();
        return;
    }
    if (!sti_thread_begin_end(thread))
        return;
    await_shares(thread);
    sti_quarantine_end_thread(thread);
    sti_heap_end_thread(thread);
    sti_hooks.sampling.end_thread(&thread->sampling);
    sti_stack_end();
    sti_backend_thread_done(); /* again: its own destructor may not be, for what has been done since */
    sti_retired_hand_over(thread);
    sti_thread_hand_on(thread);
}

void sti_share_thread_taken(struct sti_thread *thread)
{
    if (has_key)
        sti_real_specific_set(record_key, thread != NULL ? (void *)thread : &unrecorded);
}

/* libc calls destructors in rounds, and in each by the keys' numbers. Those of the program may run scopes, in the last
 * round too: then ours has to come later. So it is the last of the keys whose values lie in the thread itself. */
static bool create_late_key(void)
{
    pthread_key_t keys[STI_LIBC_KEYS_IN_THREADS];
    size_t count = 0;
    while (count < STI_LIBC_KEYS_IN_THREADS && sti_real_specific_create(&keys[count], shares_end_thread) == 0 &&
           keys[count++] < STI_LIBC_KEYS_IN_THREADS - 1)
        ;
    if (count == 0)
        return false;
    record_key = keys[--count];
    while (count > 0)
        pthread_key_delete(keys[--count]);
    return true;
}

void sti_share_start(void)
{
    has_key = create_late_key();
}
