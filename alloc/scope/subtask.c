/* SPDX-License-Identifier: MIT
 *
 * Running a stolen subtask; see subtask.h. Any thread.
 *
 * A stolen subtask is either a share's outermost scope, or lies inside one: when a thread that waits in a scope of the group
 * runs another subtask of it meanwhile. Then it charges that scope and uses its heap, and differs from a function call
 * by its landing only: so an interrupt of the group leaves it first, and the scope below goes on with it.
 *
 * Thread-specific values that a share's outermost stolen subtask set are put back at its end, as the thread goes on with another
 * task while nothing is decided. */
#include "subtask.h"

#include <errno.h>

#include "alloc/base/clock.h"
#include "alloc/base/scope_state.h"
#include "alloc/charge/meter.h"
#include "alloc/charge/shared_budget.h"
#include "alloc/interrupt/boundary.h"
#include "alloc/interrupt/guard.h"
#include "alloc/interrupt/hold.h"
#include "alloc/interrupt/interrupt.h"
#include "alloc/interrupt/watch.h"
#include "alloc/rollback/handle.h"
#include "alloc/rollback/heap.h"
#include "alloc/rollback/kept.h"
#include "alloc/rollback/nursery.h"
#include "alloc/rollback/thread_state.h"
#include "scope.h"

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
    sti_specific_rollback(scope);
    sti_thread_state_rollback(scope);
    sti_handles_move(&scope->handles, &share->group->handles, NULL);
    sti_libc_heap_end(thread, scope, NULL);
    sti_group_add_cpu(share->group, sti_cpu_end(scope));
    sti_nursery_commit(thread, scope);
    scope->heaps = sti_heap_drop_empty(thread, scope->heaps);
    sti_group_settle(share, scope);
    atomic_fetch_add_explicit(&share->group->samples, scope->samples, memory_order_relaxed);
    atomic_fetch_add_explicit(&share->group->deferred, scope->deferred, memory_order_relaxed);
    share->heaps = scope->heaps;
    share->runs = false;
}

static int begin(struct sti_thread *thread, struct sti_scope *scope, struct sti_group *group)
{
    sti_scope_init(scope, thread, group->request);
    scope->is_subtask = true;
    scope->start = sti_clock_now();
    int error = place(scope, group);
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

static void end(struct sti_thread *thread, struct sti_scope *scope)
{
    sti_scope_leave(scope);
    sti_mutex_abandon_all(scope);
    if (scope->is_inner_subtask)
        end_inside(thread, scope);
    else
        end_outermost(thread, scope);
    sti_meter_end(thread);
    sti_scope_return(thread, scope);
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
    int error = begin(thread, &scope, group);
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
