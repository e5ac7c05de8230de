/* SPDX-License-Identifier: MIT
 *
 * What a task sees of itself: its context, what it has used and has left; and suspending its scopes; see context.h. */
#include "context.h"

#include <errno.h>
#include <stdatomic.h>
#include <stint/context.h>

#include "alloc/base/clock.h"
#include "alloc/base/process.h"
#include "alloc/base/scope_state.h"
#include "alloc/charge/meter.h"
#include "alloc/charge/shared_budget.h"
#include "alloc/interrupt/boundary.h"
#include "alloc/interrupt/watch.h"
#include "alloc/rollback/heap.h"
#include "scope.h"

/* --- Contexts. Any thread. A scope's is in its request's options, so a task without one pays nothing for it. */

struct stint_context {
    atomic_uint references;
    void *value;
    void (*destroy)(void *value);
};

int stint_context_create(void *value, void (*destroy)(void *value), stint_context **context)
{
    if (context == NULL)
        return EINVAL;
    if (!sti_record_charge(sizeof(stint_context), STI_CALLER()))
        return ENOMEM;
    stint_context *created = sti_process_malloc(sizeof *created);
    if (created == NULL)
        return ENOMEM;
    atomic_init(&created->references, 1);
    created->value = value;
    created->destroy = destroy;
    *context = created;
    return 0;
}

void *stint_context_value(const stint_context *context)
{
    return context != NULL ? context->value : NULL;
}

stint_context *stint_context_current(void)
{
    const struct sti_thread *thread = sti_thread_metered;
    return thread != NULL ? sti_context_of(thread->scope) : NULL;
}

stint_context *stint_context_retain(stint_context *context)
{
    if (context != NULL)
        atomic_fetch_add_explicit(&context->references, 1, memory_order_relaxed);
    return context;
}

void stint_context_release(stint_context *context)
{
    /* acq_rel: the last one sees all that the others did with the value before it is destroyed. */
    if (context == NULL || atomic_fetch_sub_explicit(&context->references, 1, memory_order_acq_rel) > 1)
        return;
    if (context->destroy != NULL) {
        struct sti_suspended_scope suspended;
        sti_scope_suspend(&suspended);
        STI_BOUNDARY_CALLBACK("release", context->destroy, context->value, NULL, NULL);
        sti_scope_resume(&suspended);
    }
    sti_process_free(context);
}

/* --- Suspending the scopes that the calling thread is in, and resuming them.
 *
 * Scopes opened meanwhile leave the thread's record as the outermost ones do: so what the scopes below need of it is kept
 * here. A limit of 0 makes the next allocation a sample point, which computes the rest anew. */

void sti_scope_suspend(struct sti_suspended_scope *suspended)
{
    struct sti_thread *thread = sti_thread_metered;
    suspended->thread = thread;
    if (thread == NULL)
        return;
    suspended->scope = thread->scope;
    suspended->allocating = thread->allocating;
    suspended->small = thread->small;
    suspended->started = atomic_load_explicit(&thread->started, memory_order_relaxed);
    atomic_store_explicit(&thread->limit, 0, memory_order_relaxed);
    sti_thread_return_to(thread, NULL);
}

void sti_scope_resume(const struct sti_suspended_scope *suspended)
{
    struct sti_thread *thread = suspended->thread;
    if (thread == NULL)
        return;
    thread->scope = suspended->scope;
    thread->allocating = suspended->allocating;
    thread->small = suspended->small;
    atomic_store_explicit(&thread->started, suspended->started, memory_order_relaxed);
    atomic_store_explicit(&thread->limit, 0, memory_order_relaxed);
    sti_thread_enter(thread);
}

/* --- What a task may ask about itself from inside: its name, what it has used and has left. Calling thread's innermost
 * scope. */

const char *stint_task_name(void)
{
    const struct sti_thread *thread = sti_thread_metered;
    const char *name = NULL;
    for (const struct sti_scope *scope = thread != NULL ? thread->scope : NULL; scope != NULL && name == NULL;
         scope = scope->outer)
        name = scope->request->options->name;
    return name;
}

/* Not a subtask's, which differs from a call by its landing only. */
static const struct sti_scope *innermost(void)
{
    const struct sti_thread *thread = sti_thread_metered;
    const struct sti_scope *scope = thread != NULL ? thread->scope : NULL;
    while (scope != NULL && scope->is_inner_subtask)
        scope = scope->outer;
    return scope;
}

static uint64_t difference(uint64_t end, uint64_t now)
{
    return end > now ? end - now : 0;
}

/* Of a group: what it knows of all its shares, and what this one has charged since it was told. */
static uint64_t allocated_by(const struct sti_scope *scope)
{
    uint64_t own = scope->thread->used - scope->begin;
    const struct sti_share *share = scope->share;
    if (share == NULL)
        return own;
    return atomic_load_explicit(&share->group->used, memory_order_relaxed) + difference(own, share->used);
}

/* UINT64_MAX: there is no limit. */
static uint64_t allocation_limit(const struct sti_scope *scope)
{
    if (scope->share == NULL)
        return scope->own_end != UINT64_MAX ? scope->own_end - scope->begin : UINT64_MAX;
    size_t limit = scope->share->group->allocation_limit;
    return limit != 0 ? limit : UINT64_MAX;
}

static stint_usage used_by(const struct sti_scope *scope, uint64_t now)
{
    size_t held = sti_heap_held(scope);
    const struct sti_scope_request *request = scope->request;
    return (stint_usage){
        .allocated = allocated_by(scope),
        .peak = held > scope->peak ? held : scope->peak,
        .samples = scope->samples,
        .deferred = scope->deferred,
        .wall_ns = scope->untimed ? 0 : difference(now, scope->start),
        .queued_ns = request->submitted_ns != 0 ? difference(scope->start, request->submitted_ns) : 0,
        .cpu_ns = request->options->budget.cpu_ns != 0 ? sti_cpu_used(scope) : 0,
    };
}

static void lower(uint64_t *min, uint64_t value)
{
    if (value < *min)
        *min = value;
}

/* Of one scope; held: by it and what lies inside it. */
static void lower_to(stint_budget *left, const struct sti_scope *scope, size_t held, uint64_t now)
{
    if (allocation_limit(scope) != UINT64_MAX)
        lower(&left->allocation, difference(allocation_limit(scope), allocated_by(scope)));
    if (scope->memory_limit != 0)
        lower(&left->memory, difference(scope->memory_limit, held));
    if (scope->deadline != UINT64_MAX)
        lower(&left->wall_ns, difference(scope->deadline, now));
    if (scope->cpu.limit != 0 && scope->cpu.limit != UINT64_MAX)
        lower(&left->cpu_ns, difference(scope->cpu.limit, sti_cpu_used(scope)));
}

/* What a group holds is known of its other threads as they were last measured. */
static size_t held_with_others(const struct sti_scope *scope, size_t inside)
{
    size_t held = inside + sti_heap_held(scope);
    const struct sti_share *share = scope->share;
    if (share == NULL)
        return held;
    return held + difference(atomic_load_explicit(&share->group->held, memory_order_relaxed), share->held);
}

static stint_budget left_to(const struct sti_scope *scope, uint64_t now)
{
    stint_budget left = {
        .allocation = SIZE_MAX,
        .memory = SIZE_MAX,
        .wall_ns = UINT64_MAX,
        .cpu_ns = UINT64_MAX,
        .run_ns = UINT64_MAX,
    };
    size_t held = 0;
    for (; scope != NULL; scope = scope->outer) {
        held = held_with_others(scope, held);
        lower_to(&left, scope, held, now);
    }
    left.run_ns = left.wall_ns; /* of the two the earlier deadline holds */
    return left;
}

int stint_usage_now(stint_usage *used, stint_budget *left)
{
    const struct sti_scope *scope = innermost();
    if (used == NULL && left == NULL)
        return EINVAL;
    if (scope == NULL)
        return ENOENT;
    uint64_t now = sti_clock_now();
    if (used != NULL)
        *used = used_by(scope, now);
    if (left != NULL)
        *left = left_to(scope, now);
    return 0;
}
