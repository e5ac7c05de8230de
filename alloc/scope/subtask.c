/* SPDX-License-Identifier: MIT
 *
 * A task on several threads: the life of its group and of the shares that threads have of it, and the running of stolen
 * subtasks; see shared_budget.h and subtask.h. Each function says whose thread it is for. */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "alloc/base/clock.h"
#include "alloc/base/process.h"
#include "alloc/base/reporting.h"
#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"
#include "alloc/charge/account.h"
#include "alloc/charge/global.h"
#include "alloc/charge/meter.h"
#include "alloc/charge/shared_budget.h"
#include "alloc/interrupt/boundary.h"
#include "alloc/interrupt/guard.h"
#include "alloc/interrupt/hold.h"
#include "alloc/interrupt/interrupt.h"
#include "alloc/interrupt/left_frames.h"
#include "alloc/interrupt/watch.h"
#include "alloc/rollback/descriptor.h"
#include "alloc/rollback/handle.h"
#include "alloc/rollback/heap.h"
#include "alloc/rollback/kept.h"
#include "alloc/rollback/mapping.h"
#include "alloc/rollback/nursery.h"
#include "alloc/rollback/thread_state.h"
#include "joined_thread.h"
#include "scope.h"
#include "subtask.h"

/* --- The life of a group. On the thread of the task's own scope, unless shared_budget.h says otherwise. --- */

static struct sti_group *make_group(struct sti_scope *scope)
{
    struct sti_group *group = sti_process_aligned(_Alignof(struct sti_group), sizeof *group);
    struct sti_share *own = sti_process_malloc(sizeof *own);
    if (group == NULL || own == NULL) {
        sti_process_free(group);
        sti_process_free(own);
        return NULL;
    }
    *group = (struct sti_group){
        .request = scope->request,
        .thread = scope->thread,
        .interrupt.thread = scope->thread,
        .own = own,
        .deadline = scope->deadline,
        .allocation_limit = scope->own_end != UINT64_MAX ? scope->own_end - scope->begin : 0,
        .memory_limit = scope->memory_limit,
    };
    atomic_init(&group->references, 1);
    *own = (struct sti_share){ .group = group, .thread = scope->thread, .runs = true };
    return group;
}

/* The watch reads the scope's share, under its lock. */
static void join(struct sti_scope *scope, struct sti_share *share)
{
    if (scope->watched)
        sti_watch_lock();
    scope->shared = &share->group->interrupt;
    scope->share = share;
    if (scope->watched)
        sti_watch_unlock();
}

/* The task's own scope is the innermost, or around it: then the innermost ones have to draw from now on, too. */
static int find_or_make(struct sti_scope *innermost, struct sti_group **group)
{
    struct sti_share *share = sti_group_member(innermost);
    if (share == NULL) {
        struct sti_scope *scope = innermost;
        while (scope->outer != NULL)
            scope = scope->outer;
        struct sti_group *made = make_group(scope);
        if (made == NULL)
            return ENOMEM;
        join(scope, made->own);
        sti_group_begin(made->own, scope);
        for (struct sti_scope *inside = innermost; inside != scope; inside = inside->outer)
            inside->allocation_end = 0;
        share = made->own;
    }
    *group = share->group;
    return 0;
}

static bool is_inside(const struct sti_scope *scope)
{
    return scope->outer != NULL && !scope->is_inner_subtask;
}

int sti_group_open(struct sti_group **group)
{
    struct sti_thread *thread = sti_thread_metered;
    if (thread == NULL || is_inside(thread->scope))
        return ENOTSUP;
    for (const struct sti_scope *at = thread->scope; at != NULL; at = at->outer) {
        if (at->masks > 0 || at->tripped != STINT_REASON_NONE)
            return EBUSY;
    }
    return find_or_make(thread->scope, group);
}

int sti_group_open_for_thread(struct sti_group **group, bool inside)
{
    struct sti_scope *scope = sti_thread_metered->scope;
    return inside || !is_inside(scope) ? find_or_make(scope, group) : ENOTSUP;
}

uint64_t sti_group_cpu_left(struct sti_group *group)
{
    uint64_t limit = group->request->options->budget.cpu_ns;
    uint64_t used = atomic_load_explicit(&group->cpu, memory_order_relaxed);
    if (limit == 0 || limit == UINT64_MAX)
        return limit;
    return used < limit ? limit - used : 1;
}

void sti_group_add_cpu(struct sti_group *group, uint64_t used)
{
    uint64_t limit = group->request->options->budget.cpu_ns;
    if (limit != 0 && atomic_fetch_add_explicit(&group->cpu, used, memory_order_relaxed) + used >= limit)
        sti_group_trip(group, STINT_REASON_CPU);
}

void sti_group_close(struct sti_scope *scope, uint64_t cpu)
{
    struct sti_group *group = scope->share->group;
    uint64_t limit = group->request->options->budget.cpu_ns;
    sti_group_settle(scope->share, scope);
    if (limit != 0 && !scope->finished && cpu + atomic_load_explicit(&group->cpu, memory_order_relaxed) >= limit)
        sti_group_trip(group, STINT_REASON_CPU);
    scope->tripped = sti_group_tripped(group);
}

void sti_group_add_usage(const struct sti_scope *scope, stint_usage *usage)
{
    struct sti_group *group = scope->share->group;
    usage->allocated = atomic_load_explicit(&group->used, memory_order_relaxed);
    size_t peak = atomic_load_explicit(&group->peak, memory_order_relaxed);
    if (peak > usage->peak)
        usage->peak = peak;
    usage->samples += atomic_load_explicit(&group->samples, memory_order_relaxed);
    usage->deferred += atomic_load_explicit(&group->deferred, memory_order_relaxed);
    usage->cpu_ns += atomic_load_explicit(&group->cpu, memory_order_relaxed);
}

uint64_t sti_group_end(struct sti_scope *scope, bool commits)
{
    struct sti_group *group = scope->share->group;
    sti_share_decide(group, commits);
    sti_account_reserve(scope->account, scope->charged,
                        atomic_load_explicit(&group->account_reserved, memory_order_relaxed), 0);
    uint64_t kept = atomic_load_explicit(&group->kept, memory_order_relaxed);
    sti_process_free(group->own);
    group->own = NULL;
    sti_group_release(group);
    return kept;
}

void sti_group_release(struct sti_group *group)
{
    /* acq_rel: the last one sees that the others are done with it. */
    if (atomic_fetch_sub_explicit(&group->references, 1, memory_order_acq_rel) > 1)
        return;
    sti_reporting_drop(&group->interrupt);
    sti_process_free(group);
}

/* --- The shares of groups that threads keep: what stolen subtasks left there, until the task's outcome is known. Each
 * function says whose thread it is for.
 *
 * A heap can be ended by its own thread only. So each share waits on its thread for what the task's own thread decides:
 *
 *   OPEN ----> COMMITTED or ROLLED_BACK     by the task's thread, which then puts it into the thread's mail; the thread
 *                                           takes it out, does that, and frees it
 *   OPEN ----> ABANDONED                    by the share's thread, which ends, and has taken the heaps out; the task's
 *                                           thread frees it when it comes to decide
 *   OPEN <---> ORPHANED                     by the share's thread, which ends and was the task's (joined_thread.h); and
 *                                           back by the next such thread, if nothing was left there. What is left the
 *                                           task's thread takes over, as it waits for the ends of all such threads
 *
 * The first two are compare-and-swaps, so one of them wins, and whoever did not win frees the share. acq_rel: each sees
 * what the other had written. A thread that ends and finds its share decided waits for the mail: it is a few
 * instructions away.
 *
 * The list of a group's shares is pushed to while stolen subtasks begin, and walked when all of them have ended. The
 * mail is pushed to by any thread and taken out whole by its own. For both: release to push, acquire to read. Whoever
 * pushed a share does not touch it again. */

enum { OPEN, COMMITTED, ROLLED_BACK, ABANDONED, ORPHANED };

static struct sti_share *make_share(struct sti_group *group, struct sti_thread *thread)
{
    const char *task = group->request->options->name;
    size_t length = task != NULL ? strlen(task) + 1 : 0;
    struct sti_share *share = sti_process_malloc(sizeof *share + length);
    if (share == NULL)
        return NULL;
    *share = (struct sti_share){ .group = group, .thread = thread, .next_of_thread = thread->shares };
    if (task != NULL)
        share->task = memcpy(share + 1, task, length);
    atomic_init(&share->state, OPEN);
    thread->shares = share;
    atomic_fetch_add_explicit(&group->references, 1, memory_order_relaxed);
    share->next = atomic_load_explicit(&group->shares, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&group->shares, &share->next, share, memory_order_release,
                                                  memory_order_relaxed))
        ;
    return share;
}

static bool change_state(struct sti_share *share, int from, int to)
{
    return atomic_compare_exchange_strong_explicit(&share->state, &from, to, memory_order_acq_rel,
                                                   memory_order_relaxed);
}

/* Of a thread that has ended: so a task has no more of them than threads at a time, and those that left something. */
static struct sti_share *reuse_share(struct sti_group *group, struct sti_thread *thread)
{
    struct sti_share *share = atomic_load_explicit(&group->shares, memory_order_acquire);
    for (; share != NULL; share = share->next) {
        if (!change_state(share, ORPHANED, OPEN))
            continue;
        if (share->heaps == NULL && share->mapped == NULL)
            break;
        atomic_store_explicit(&share->state, ORPHANED, memory_order_release);
    }
    if (share == NULL)
        return NULL;
    share->thread = thread;
    share->next_of_thread = thread->shares;
    thread->shares = share;
    return share;
}

struct sti_share *sti_share_take(struct sti_group *group, struct sti_thread *thread)
{
    struct sti_share *share = thread->shares;
    while (share != NULL && (share->group != group || share->runs))
        share = share->next_of_thread;
    if (share == NULL)
        share = reuse_share(group, thread);
    if (share == NULL)
        share = make_share(group, thread);
    if (share != NULL)
        share->runs = true;
    return share;
}

static void send(struct sti_share *share)
{
    struct sti_thread *thread = share->thread;
    bool is_urgent = share->heaps != NULL || share->mapped != NULL;
    share->next_of_mail = atomic_load_explicit(&thread->mail, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&thread->mail, &share->next_of_mail, share, memory_order_release,
                                                  memory_order_relaxed))
        ;
    if (is_urgent)
        sti_forks_wake(thread);
}

static void discard(struct sti_share *share)
{
    sti_group_release(share->group);
    sti_process_free(share);
}

void sti_share_decide(struct sti_group *group, bool commits)
{
    struct sti_share *share = atomic_exchange_explicit(&group->shares, NULL, memory_order_acquire);
    while (share != NULL) {
        struct sti_share *next = share->next;
        int open = OPEN;
        if (atomic_compare_exchange_strong_explicit(&share->state, &open, commits ? COMMITTED : ROLLED_BACK,
                                                    memory_order_acq_rel, memory_order_acquire)) {
            send(share);
        } else {
            atomic_fetch_add_explicit(&group->kept, commits ? 0 : share->held, memory_order_relaxed);
            discard(share);
        }
        share = next;
    }
}

static void take_off(struct sti_thread *thread, const struct sti_share *share)
{
    struct sti_share **link = &thread->shares;
    while (*link != share)
        link = &(*link)->next_of_thread;
    *link = share->next_of_thread;
}

static void carry_out(struct sti_thread *thread, struct sti_share *share)
{
    take_off(thread, share);
    if (atomic_load_explicit(&share->state, memory_order_relaxed) == COMMITTED) {
        sti_mapped_commit(&share->mapped, NULL);
        sti_heap_commit(thread, share->heaps);
    } else {
        sti_descriptors_rollback(share->mapped, NULL);
        share->heaps = sti_mapped_take(&share->mapped, share->heaps);
        sti_heap_rollback(thread, share->heaps, share->task, false);
        if (sti_group_tripped(share->group) == STINT_REASON_GLOBAL_MEMORY_LIMIT)
            sti_process_collect();
        else
            sti_rolled_back(share->held);
    }
    discard(share);
}

void sti_share_collect(struct sti_thread *thread)
{
    struct sti_share *share = atomic_exchange_explicit(&thread->mail, NULL, memory_order_acquire);
    while (share != NULL) {
        struct sti_share *next = share->next_of_mail;
        carry_out(thread, share);
        share = next;
    }
}

void sti_subtask_collect(void)
{
    struct sti_thread *thread = sti_thread_own();
    if (thread == NULL || thread->shares == NULL)
        return;
    if (sti_share_has_mail(thread))
        sti_share_collect(thread);
    for (struct sti_share *share = thread->shares; share != NULL; share = share->next_of_thread) {
        if (!share->runs)
            sti_group_answer_idle(share);
    }
}

void sti_subtask_answer(void)
{
    struct sti_thread *thread = sti_thread_metered;
    struct sti_share *share = thread != NULL ? sti_group_member(thread->scope) : NULL;
    if (share != NULL)
        sti_group_answer_waiting(share, thread->scope);
}

bool sti_subtask_undecided(void)
{
    const struct sti_thread *thread = sti_thread_own();
    const struct sti_share *share = thread != NULL ? thread->shares : NULL;
    while (share != NULL && share->heaps == NULL && share->mapped == NULL)
        share = share->next_of_thread;
    return share != NULL;
}

static void take_over(struct sti_share *share, struct sti_scope *scope)
{
    while (share->heaps != NULL) {
        struct sti_heap *heap = share->heaps;
        share->heaps = heap->next;
        heap->theap = sti_backend_heap_theap(heap->backend);
        heap->next = scope->heaps;
        scope->heaps = heap;
    }
    sti_mapped_commit(&share->mapped, &scope->mapped);
    share->held = 0;
}

void sti_share_adopt(struct sti_scope *scope)
{
    struct sti_share *share = atomic_load_explicit(&scope->share->group->shares, memory_order_acquire);
    for (; share != NULL; share = share->next) {
        if (atomic_load_explicit(&share->state, memory_order_acquire) == ORPHANED)
            take_over(share, scope);
    }
}

/* False: it is decided, and in the mail or about to be. */
static bool abandon(struct sti_thread *thread, struct sti_share *share)
{
    if (share->is_threads) {
        atomic_store_explicit(&share->state, ORPHANED, memory_order_release);
        return true;
    }
    struct sti_heap *heaps = share->heaps;
    struct sti_mapped *mapped = share->mapped;
    share->held = sti_heap_list_held(heaps) + sti_mapped_held(mapped);
    int open = OPEN;
    if (!atomic_compare_exchange_strong_explicit(&share->state, &open, ABANDONED, memory_order_acq_rel,
                                                 memory_order_relaxed))
        return false;
    sti_mapped_commit(&mapped, NULL);
    sti_heap_commit(thread, heaps);
    return true;
}

void sti_share_end_thread(struct sti_thread *thread)
{
    struct sti_share *decided = NULL;
    while (thread->shares != NULL) {
        struct sti_share *share = thread->shares;
        thread->shares = share->next_of_thread;
        if (!abandon(thread, share)) {
            share->next_of_thread = decided;
            decided = share;
        }
    }
    thread->shares = decided;
    while (thread->shares != NULL) {
        sti_share_collect(thread);
        sched_yield();
    }
}

/* --- Running a stolen subtask. Any thread.
 *
 * A stolen subtask is either a share's outermost scope, or lies inside one: when a thread that waits in a scope of the
 * group runs another subtask of it meanwhile. Then it charges that scope and uses its heap, and differs from a function
 * call by its landing only: so an interrupt of the group leaves it first, and the scope below goes on with it.
 *
 * Thread-specific values that a share's outermost stolen subtask set are put back at its end, as the thread goes on
 * with another task while nothing is decided. */

static bool belongs_to(const struct sti_scope *scope, const struct sti_group *group)
{
    while (scope != NULL && scope->is_inner_subtask)
        scope = scope->outer;
    return scope != NULL && scope->share != NULL && scope->share->group == group;
}

/* Where the stolen subtask belongs, which the watch looks at too: before that begins. */
static int place(struct sti_scope *scope, struct sti_group *group)
{
    if (belongs_to(scope->below, group)) {
        scope->is_inner_subtask = true;
        scope->outer = scope->below;
        scope->account = NULL;
        scope->token = NULL;
        scope->stop = NULL;
        return 0;
    }
    scope->deadline = group->deadline;
    sti_cpu_begin(scope, sti_group_cpu_left(group), sti_clock_now());
    scope->shared = &group->interrupt;
    scope->share = sti_share_take(group, scope->thread);
    return scope->share != NULL ? 0 : ENOMEM;
}

static void begin_inside(struct sti_thread *thread, struct sti_scope *scope)
{
    static const stint_budget none;
    scope->young.held = 0; /* what it makes there is the outer one's */
    sti_meter_begin(thread, &none);
    sti_meter_allocate_from(thread, sti_heap_own(scope->outer));
}

static void begin_outermost(struct sti_thread *thread, struct sti_scope *scope)
{
    struct sti_share *share = scope->share;
    sti_nursery_open(thread, scope, true);
    scope->heaps = share->heaps;
    scope->heap = share->heaps;
    share->heaps = NULL;
    scope->mapped = share->mapped;
    share->mapped = NULL;
    sti_mapped_set_thread(scope->mapped, thread);
    sti_meter_begin(thread, &scope->request->options->budget);
    sti_group_begin(share, scope);
    if (sti_scope_has_limit_of_time(scope))
        sti_next_deadline_begin(thread, scope);
    sti_meter_allocate_from(thread, scope->heap);
}

/* Its heap, if it made one, is the first of the scope around it. */
static void end_inside(struct sti_thread *thread, struct sti_scope *scope)
{
    struct sti_scope *outer = scope->outer;
    sti_specific_commit(scope);
    sti_thread_state_commit(scope);
    sti_handles_commit(scope, outer);
    sti_libc_heap_end(thread, scope, outer);
    sti_mapped_commit(&scope->mapped, &outer->mapped);
    while (scope->heaps != NULL) {
        struct sti_heap *heap = scope->heaps;
        scope->heaps = heap->next;
        heap->next = outer->heaps;
        outer->heaps = heap;
    }
    if (outer->heap == NULL)
        outer->heap = scope->heap;
    outer->samples += scope->samples;
    outer->deferred += scope->deferred;
}

static void end_outermost(struct sti_thread *thread, struct sti_scope *scope)
{
    struct sti_share *share = scope->share;
    if (scope->is_subtask == STI_SUBTASK_THREAD)
        sti_specific_commit(scope); /* for their destructors, as it ends */
    else
        sti_specific_rollback(scope);
    sti_thread_state_rollback(scope);
    sti_handles_move(&scope->handles, &share->group->handles, NULL);
    sti_libc_heap_end(thread, scope, NULL);
    sti_group_add_cpu(share->group, sti_cpu_end(scope));
    sti_nursery_commit(thread, scope);
    scope->heaps = sti_heap_drop_empty(thread, scope->heaps);
    share->fixed = 0;
    if (scope->is_subtask == STI_SUBTASK_THREAD)
        scope->heap = NULL; /* nobody allocates there any more, so all of its pages count */
    sti_group_settle(share, scope);
    atomic_fetch_add_explicit(&share->group->samples, scope->samples, memory_order_relaxed);
    atomic_fetch_add_explicit(&share->group->deferred, scope->deferred, memory_order_relaxed);
    share->heaps = scope->heaps;
    share->mapped = scope->mapped;
    sti_mapped_set_thread(share->mapped, NULL);
    share->runs = false;
}

/* held: by a thread of the task's, for itself; otherwise 0. */
static int begin(struct sti_thread *thread, struct sti_scope *scope, struct sti_group *group, size_t held)
{
    sti_scope_init(scope, thread, group->request);
    scope->is_subtask = held == 0 ? STI_SUBTASK_STOLEN : STI_SUBTASK_THREAD;
    scope->start = sti_clock_now();
    int error = place(scope, group);
    if (error != 0)
        return error;
    if (scope->share != NULL) {
        scope->share->fixed = held;
        scope->share->is_threads = held > 0;
    }
    error = scope->preemptible ? sti_scope_begin_preemption(scope) : 0;
    if (error != 0) {
        if (scope->share != NULL)
            scope->share->runs = false;
        return error;
    }
    sti_hold_begin(scope);
    thread->scope = scope;
    if (scope->is_inner_subtask)
        begin_inside(thread, scope);
    else
        begin_outermost(thread, scope);
    sti_thread_enter(thread);
    return 0;
}

static void end(struct sti_thread *thread, struct sti_scope *scope)
{
    sti_scope_leave(scope);
    if (scope->is_subtask == STI_SUBTASK_STOLEN && !scope->is_inner_subtask)
        sti_joined_end_openmp();
    sti_mutex_abandon_all(scope);
    if (scope->is_inner_subtask)
        end_inside(thread, scope);
    else
        end_outermost(thread, scope);
    sti_meter_end(thread);
    sti_scope_return(thread, scope);
}

int sti_subtask_open(struct sti_thread *thread, struct sti_scope *scope, struct sti_group *group, size_t held)
{
    return begin(thread, scope, group, held);
}

void sti_subtask_close(struct sti_thread *thread, struct sti_scope *scope)
{
    end(thread, scope);
}

int sti_subtask_run(struct sti_group *group, stint_fn *fn, void *arg, void **value, bool *interrupted,
                    struct sti_thrown *thrown)
{
    *value = NULL;
    thrown->exception = NULL;
    *interrupted = false;
    struct sti_thread *thread = sti_thread_self();
    if (thread == NULL)
        return sti_thread_missing();
    struct sti_scope scope;
    scope.frame = (uintptr_t)__builtin_frame_address(0);
    int error = begin(thread, &scope, group, 0);
    if (error != 0)
        return error;

    struct sti_landed landed = { .returned = false, .code = ECANCELED };
    sti_interrupt_look(&scope, 0);
    if (!sti_interrupt_is_tripped(&scope))
        sti_scope_land(&scope, fn, arg, &landed);
    end(thread, &scope);
    *value = landed.value;
    *thrown = landed.thrown;
    *interrupted = !landed.returned;
    return landed.code;
}
