/* SPDX-License-Identifier: MIT
 *
 * A task on several threads: the life of its group, and the running of stolen subtasks; see shared_budget.h and
 * subtask.h. Each function says whose thread it is for. */
#include <errno.h>
#include <string.h>

#include "alloc/heap/heap.h"
#include "alloc/heap/libc_heap.h"
#include "alloc/heap/nursery.h"
#include "alloc/interrupt/guard.h"
#include "alloc/interrupt/hold.h"
#include "alloc/interrupt/interrupt.h"
#include "alloc/interrupt/watch.h"
#include "alloc/meter/account.h"
#include "alloc/meter/meter.h"
#include "alloc/meter/shared_budget.h"
#include "alloc/platform/clock.h"
#include "alloc/platform/machine.h"
#include "alloc/platform/process.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"
#include "alloc/rollback/undo.h"
#include "run.h"
#include "scope.h"
#include "share.h"
#include "subtask.h"

/* --- The life of a group. On the thread of the task's own scope, unless shared_budget.h says otherwise. --- */

static struct sti_group *subtask_make_group(struct sti_scope *scope)
{
    const char *name = scope->request->options->name;
    size_t name_size = name != NULL ? strlen(name) + 1 : 0;
    struct sti_group *group = sti_process_aligned(_Alignof(struct sti_group), sizeof *group + name_size);
    struct sti_share *own = sti_process_malloc(sizeof *own);
    if (group == NULL || own == NULL) {
        sti_process_free(group);
        sti_process_free(own);
        return NULL;
    }
    *group = (struct sti_group){
        .request = scope->request,
        .task = name != NULL ? memcpy(group + 1, name, name_size) : NULL,
        .thread = scope->thread,
        .interrupt = { .thread = scope->thread, .task = scope->number },
        .own = own,
        .deadline = sti_scope_deadline(scope),
        .allocation_limit = scope->own_end != UINT64_MAX ? scope->own_end - scope->begin : 0,
        .memory_limit = scope->memory_limit,
    };
    atomic_init(&group->references, 1);
    *own = (struct sti_share){ .group = group, .thread = scope->thread, .runs = true };
    return group;
}

/* The watch reads the scope's share, under its lock. */
static void share_join(struct sti_scope *scope, struct sti_share *share)
{
    if (scope->watched)
        sti_watch_lock();
    scope->shared = &share->group->interrupt;
    scope->share = share;
    if (scope->watched)
        sti_watch_unlock();
}

/* Of a task's own scope, which is the thread's innermost. */
static struct sti_share *begin_group(struct sti_scope *scope)
{
    struct sti_group *made = subtask_make_group(scope);
    if (made == NULL)
        return NULL;
    share_join(scope, made->own);
    sti_group_begin(made->own, scope);
    return made->own;
}

int sti_group_open(struct sti_group **group)
{
    struct sti_thread *thread = sti_thread_metered;
    struct sti_scope *scope = thread != NULL ? thread->scope : NULL;
    if (scope == NULL || (scope->outer != NULL && !scope->is_inner_subtask))
        return ENOTSUP;
    for (const struct sti_scope *at = scope; at != NULL; at = at->outer) {
        if (at->masks > 0 || at->tripped != STINT_REASON_NONE)
            return EBUSY;
    }
    struct sti_share *share = sti_group_member(scope);
    if (share == NULL)
        share = begin_group(scope);
    if (share == NULL)
        return ENOMEM;
    *group = share->group;
    return 0;
}

static uint64_t cpu_limit(const struct sti_group *group)
{
    return sti_limits_now(group->request->limits, &group->request->options->budget).cpu_ns;
}

uint64_t sti_group_cpu_left(struct sti_group *group)
{
    uint64_t limit = cpu_limit(group);
    uint64_t used = atomic_load_explicit(&group->cpu, memory_order_relaxed);
    if (limit == 0 || limit == UINT64_MAX)
        return limit;
    return used < limit ? limit - used : 1;
}

void sti_group_add_cpu(struct sti_group *group, uint64_t used)
{
    uint64_t limit = cpu_limit(group);
    if (limit != 0 && atomic_fetch_add_explicit(&group->cpu, used, memory_order_relaxed) + used >= limit)
        sti_group_trip(group, STINT_REASON_CPU);
}

void sti_group_close(struct sti_scope *scope, uint64_t cpu)
{
    struct sti_group *group = scope->share->group;
    uint64_t limit = cpu_limit(group);
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

void sti_group_end(struct sti_scope *scope, bool commits)
{
    struct sti_group *group = scope->share->group;
    sti_share_decide(group, commits);
    sti_account_reserve(scope->account, scope->charged,
                        atomic_load_explicit(&group->account_reserved, memory_order_relaxed), 0);
    sti_process_free(group->own);
    group->own = NULL;
    sti_group_release(group);
}

/* --- What a thread keeps of groups, and answers for: as it waits, and between tasks. Calling thread. --- */

void sti_subtask_collect(void)
{
    struct sti_thread *thread = sti_thread_own();
    if (thread == NULL || thread->shares == NULL)
        return;
    if (sti_share_has_inbox_entries(thread))
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

bool sti_subtask_keeps_share(void)
{
    const struct sti_thread *thread = sti_thread_own();
    return thread != NULL && thread->shares != NULL;
}

bool sti_subtask_undecided(void)
{
    const struct sti_thread *thread = sti_thread_own();
    const struct sti_share *share = thread != NULL ? thread->shares : NULL;
    while (share != NULL && share->heaps == NULL && share->mapped == NULL)
        share = share->next_of_thread;
    return share != NULL;
}

/* --- Running a stolen subtask. Any thread.
 *
 * A stolen subtask is either a share's outermost scope, or lies inside one: when a thread that waits in a scope of the
 * group runs another subtask of it meanwhile. Then it charges that scope and uses its heap, and differs from a function
 * call by its resume point only: so an interrupt of the group leaves it first, and the scope below goes on with it.
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
static int subtask_place(struct sti_scope *scope, struct sti_group *group)
{
    if (belongs_to(scope->below, group)) {
        scope->is_inner_subtask = true;
        scope->outer = scope->below;
        scope->account = NULL;
        scope->token = NULL;
        scope->stop = NULL;
        return 0;
    }
    atomic_init(&scope->deadline, group->deadline);
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
    sti_scope_commit_state(thread, scope);
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
    sti_undo_hand_in(scope, &share->group->undo);
    sti_libc_heap_end(thread, scope, NULL);
    sti_group_add_cpu(share->group, sti_cpu_end(scope));
    sti_nursery_commit(thread, scope);
    scope->heaps = sti_heap_drop_empty(thread, scope->heaps);
    sti_group_settle(share, scope);
    atomic_fetch_add_explicit(&share->group->samples, scope->samples, memory_order_relaxed);
    atomic_fetch_add_explicit(&share->group->deferred, scope->deferred, memory_order_relaxed);
    share->heaps = scope->heaps;
    share->mapped = scope->mapped;
    share->runs = false;
}

static int open_subtask(struct sti_thread *thread, struct sti_scope *scope, struct sti_group *group)
{
    sti_scope_init(scope, thread, group->request);
    sti_scope_begin_limits(scope);
    scope->is_subtask = true;
    scope->start = sti_clock_now();
    int error = subtask_place(scope, group);
    if (error != 0)
        return error;
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

static void close_subtask(struct sti_thread *thread, struct sti_scope *scope)
{
    sti_scope_leave(scope);
    if (__builtin_expect(sti_debug_is_on, 0))
        sti_scope_end_debugged(scope);
    sti_mutex_abandon_all(scope);
    if (scope->is_inner_subtask)
        end_inside(thread, scope);
    else
        end_outermost(thread, scope);
    sti_meter_end(thread, 0);
    sti_scope_return(thread, scope);
}

int sti_subtask_run(struct sti_group *group, stint_fn *fn, void *arg, void **value, bool *interrupted)
{
    *value = NULL;
    *interrupted = false;
    struct sti_thread *thread = sti_thread_self();
    if (thread == NULL)
        return sti_thread_missing();
    struct sti_scope scope;
    scope.frame = STI_FRAME_ADDRESS();
    int error = open_subtask(thread, &scope, group);
    if (error != 0)
        return error;

    struct sti_resumed resumed = { .returned = false, .code = ECANCELED };
    sti_interrupt_look(&scope, 0);
    if (!sti_interrupt_is_tripped(&scope))
        sti_scope_run_resumable(&scope, fn, arg, &resumed);
    if (sti_process_is_partial())
        sti_process_end_thread_of_part();
    close_subtask(thread, &scope);
    *value = resumed.value;
    *interrupted = !resumed.returned;
    return resumed.code;
}
