/* SPDX-License-Identifier: MIT
 *
 * A task seen from the inside: its context, what it has used and has left, the suspending of its scopes, and the
 * outcome that it leaves; see context.h. */
#include "context.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stint/detail/exception.h>
#include <stint/interrupt.h>
#include <stint/memory.h>
#include <stint/task.h>
#include <stint/token.h>
#include <string.h>

#include "alloc/heap/free.h"
#include "alloc/heap/held.h"
#include "alloc/heap/nursery.h"
#include "alloc/interrupt/boundary.h"
#include "alloc/interrupt/interrupt.h"
#include "alloc/interrupt/watch.h"
#include "alloc/meter/account.h"
#include "alloc/meter/allocate.h"
#include "alloc/meter/global.h"
#include "alloc/meter/shared_budget.h"
#include "alloc/platform/clock.h"
#include "alloc/platform/process.h"
#include "alloc/platform/sampling.h"
#include "alloc/platform/scope_state.h"

/* --- Contexts. Any thread. A scope's is in its request's options, so a task without one pays nothing for it. */

struct stint_context {
    atomic_uint references;
    void *value;
    stint_context_destroy_fn *destroy;
};

int stint_context_create(void *value, stint_context_destroy_fn *destroy, stint_context **context)
{
    if (sti_process_is_partial())
        return ENOTSUP;
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
    if (sti_process_is_partial())
        return;
    /* acq_rel: the last one sees all that the others did with the value before it is destroyed. */
    if (context == NULL || atomic_fetch_sub_explicit(&context->references, 1, memory_order_acq_rel) > 1)
        return;
    if (context->destroy != NULL) {
        struct sti_suspended_scope suspended;
        sti_scope_suspend(&suspended);
        STI_BOUNDARY_CALLBACK(context->destroy, context->value, NULL, NULL);
        sti_scope_resume(&suspended);
    }
    sti_process_free(context);
}

/* --- Suspending the scopes that the calling thread is in, and resuming them.
 *
 * Scopes opened meanwhile leave the thread's record as the outermost ones do: so what the scopes below need of it is
 * kept here. A limit of 0 makes the next allocation a sample point, which computes the rest anew. */

void sti_scope_suspend(struct sti_suspended_scope *suspended)
{
    struct sti_thread *thread = sti_thread_metered;
    suspended->thread = thread;
    if (thread == NULL)
        return;
    suspended->scope = thread->scope;
    suspended->allocating = thread->allocating;
    suspended->small = thread->small;
    suspended->running = sti_global_set_aside(thread);
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
    sti_global_go_on(thread, suspended->running);
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

/* Not a subtask's, which differs from a call by its resume point only. */
static const struct sti_scope *context_innermost(void)
{
    const struct sti_thread *thread = sti_thread_metered;
    const struct sti_scope *scope = thread != NULL ? thread->scope : NULL;
    while (scope != NULL && scope->is_inner_subtask)
        scope = scope->outer;
    return scope;
}

static uint64_t ns_between(uint64_t end, uint64_t now)
{
    return end > now ? end - now : 0;
}

/* Of a group: what it knows of all its shares, and what this one has charged since it was told. */
static uint64_t context_allocated(const struct sti_scope *scope)
{
    uint64_t own = scope->thread->used - scope->begin;
    const struct sti_share *share = scope->share;
    if (share == NULL)
        return own;
    return atomic_load_explicit(&share->group->used, memory_order_relaxed) + ns_between(own, share->used);
}

/* UINT64_MAX: there is no limit. */
static uint64_t allocation_limit(const struct sti_scope *scope)
{
    if (scope->share == NULL)
        return scope->own_end != UINT64_MAX ? scope->own_end - scope->begin : UINT64_MAX;
    uint64_t limit = sti_group_allocation_limit(scope->share->group);
    return limit != 0 ? limit : UINT64_MAX;
}

static stint_usage context_used(const struct sti_scope *scope, uint64_t now)
{
    size_t held = sti_heap_held(scope);
    const struct sti_scope_request *request = scope->request;
    return (stint_usage){
        .allocated = context_allocated(scope),
        .peak = held > scope->peak ? held : scope->peak,
        .samples = scope->samples,
        .deferred = scope->deferred,
        .wall_ns = scope->untimed ? 0 : ns_between(now, scope->start),
        .queued_ns = request->submitted_ns != 0 ? ns_between(scope->start, request->submitted_ns) : 0,
        .cpu_ns = request->options->budget.cpu_ns != 0 ? sti_cpu_used(scope) : 0,
    };
}

static void lower_minimum(uint64_t *min, uint64_t value)
{
    if (value < *min)
        *min = value;
}

/* Of one scope; held: by it and what lies inside it. */
static void lower_to(stint_budget *left, const struct sti_scope *scope, size_t held, uint64_t now)
{
    if (allocation_limit(scope) != UINT64_MAX)
        lower_minimum(&left->allocation, ns_between(allocation_limit(scope), context_allocated(scope)));
    if (scope->memory_limit != 0)
        lower_minimum(&left->memory, ns_between(scope->memory_limit, held));
    uint64_t cpu = sti_scope_cpu_limit(scope);
    if (sti_scope_deadline(scope) != UINT64_MAX)
        lower_minimum(&left->wall_ns, ns_between(sti_scope_deadline(scope), now));
    if (cpu != 0 && cpu != UINT64_MAX)
        lower_minimum(&left->cpu_ns, ns_between(cpu, sti_cpu_used(scope)));
}

/* What a group holds is known of its other threads as they were last measured. */
static size_t held_with_others(const struct sti_scope *scope, size_t inside)
{
    size_t held = inside + sti_heap_held(scope);
    const struct sti_share *share = scope->share;
    if (share == NULL)
        return held;
    return held + ns_between(atomic_load_explicit(&share->group->held, memory_order_relaxed), share->held);
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
    left.run_ns = left.wall_ns; /* the earlier of the two deadlines counts */
    return left;
}

int stint_usage_now(stint_usage *used, stint_budget *left)
{
    if (sti_process_is_partial())
        return ENOTSUP;
    const struct sti_scope *scope = context_innermost();
    if (used == NULL && left == NULL)
        return EINVAL;
    if (scope == NULL)
        return ENOENT;
    uint64_t now = sti_clock_now();
    if (used != NULL)
        *used = context_used(scope, now);
    if (left != NULL)
        *left = left_to(scope, now);
    return 0;
}

/* --- Statuses and reasons in words, and the error that an outcome has for each reason. Any thread. --- */

#define OWN (-1) /* the code that the task's function returned */

static const struct {
    const char *name;
    int error;
} reasons[] = {
    [STINT_REASON_NONE] = { "none", 0 },
    [STINT_REASON_FAILED] = { "failed", OWN },
    [STINT_REASON_ALLOCATION_LIMIT] = { "allocation-limit", ENOMEM },
    [STINT_REASON_MEMORY_LIMIT] = { "memory-limit", ENOMEM },
    [STINT_REASON_DEADLINE] = { "deadline", ETIMEDOUT },
    [STINT_REASON_ACCOUNT] = { "account", EDQUOT },
    [STINT_REASON_GLOBAL_MEMORY_LIMIT] = { "global-memory-limit", ENOMEM },
    [STINT_REASON_TOKEN] = { "token", ECANCELED },
    [STINT_REASON_SHUTDOWN] = { "shutdown", ECANCELED },
    [STINT_REASON_OUTER] = { "outer", ECANCELED },
    [STINT_REASON_TRACKER] = { "tracker", EDQUOT },
    [STINT_REASON_CPU] = { "cpu", ETIMEDOUT },
    [STINT_REASON_EXPIRED] = { "expired", ETIMEDOUT },
    [STINT_REASON_EXCEPTION] = { "exception", OWN },
    [STINT_REASON_STACK] = { "stack", ENOMEM },
    [STINT_REASON_CRASH] = { "crash", EFAULT },
    [STINT_REASON_EXIT] = { "exit", ECHILD },
    [STINT_REASON_KILLED] = { "killed", ECHILD },
    [STINT_REASON_BROKEN] = { "broken", EPROTO },
};

#define NAME_OF(names, value) ((size_t)(value) < sizeof(names) / sizeof *(names) ? (names)[value] : "unknown")

const char *stint_status_name(stint_status status)
{
    static const char *const names[] = { [STINT_OK] = "ok", [STINT_ERROR] = "error", [STINT_CANCELLED] = "cancelled" };
    return NAME_OF(names, status);
}

const char *stint_reason_name(stint_reason reason)
{
    return (size_t)reason < sizeof reasons / sizeof *reasons ? reasons[reason].name : "unknown";
}

const char *stint_deferral_name(stint_deferral deferral)
{
    static const char *const names[] = {
        [STINT_DEFERRAL_NONE] = "none",   [STINT_DEFERRAL_MASK] = "mask",   [STINT_DEFERRAL_LOCK] = "lock",
        [STINT_DEFERRAL_THROW] = "throw", [STINT_DEFERRAL_ONCE] = "once",   [STINT_DEFERRAL_STATIC] = "static",
        [STINT_DEFERRAL_CATCH] = "catch", [STINT_DEFERRAL_FRAME] = "frame",
    };
    return NAME_OF(names, deferral);
}

void sti_outcome_set_unsuccessful(stint_outcome *outcome, stint_reason reason, int own_error)
{
    int error = reasons[reason].error;
    outcome->error = error == OWN ? own_error : error;
    outcome->status = error == ECANCELED ? STINT_CANCELLED : STINT_ERROR;
}

stint_outcome sti_outcome_unstarted(stint_reason reason, uint64_t queued_ns)
{
    stint_outcome outcome = { .usage = { .queued_ns = queued_ns } };
    sti_outcome_set_reason(&outcome, reason, 0);
    return outcome;
}

/* --- Errors with a payload. --- */

static bool is_subtask(const struct sti_scope *scope)
{
    return scope->is_inner_subtask || (scope->share != NULL && scope->share->group->thread != scope->thread);
}

/* NULL: there is no memory, or the task must not have it. */
static void *copy_charged(const void *payload, size_t size, const void *caller)
{
    void *copy = sti_record_charge(size, caller) ? sti_process_malloc(size) : NULL;
    return copy != NULL ? memcpy(copy, payload, size) : NULL;
}

int stint_fail(int error, const void *payload, size_t size)
{
    const struct sti_thread *thread = sti_thread_metered;
    if (thread == NULL || is_subtask(thread->scope) || (payload == NULL && size > 0))
        return error;
    void *copy = size > 0 ? copy_charged(payload, size, STI_CALLER()) : NULL;
    struct sti_scope *scope = thread->scope;
    sti_process_free(scope->payload);
    scope->payload = copy;
    scope->payload_size = size;
    return error;
}

/* Of what happens before it fails the function the first reason counts, as ever. */
int stint_fail_thrown_(int error, const char *what)
{
    const struct sti_thread *thread = sti_thread_metered;
    if (thread == NULL || is_subtask(thread->scope))
        return error;
    struct sti_scope *scope = thread->scope;
    sti_interrupt_trip(scope, STINT_REASON_EXCEPTION);
    if (scope->tripped == STINT_REASON_EXCEPTION && scope->message != NULL)
        strncpy(scope->message, what, STINT_MESSAGE_SIZE - 1);
    return error;
}

void sti_payload_hand_over(struct sti_scope *scope, stint_outcome *outcome)
{
    if (outcome->reason != STINT_REASON_FAILED && outcome->reason != STINT_REASON_EXCEPTION) {
        sti_process_free(scope->payload);
        return;
    }
    outcome->payload = scope->payload;
    outcome->payload_size = scope->payload_size;
}

void sti_payload_settle(stint_outcome *outcome)
{
    if (sti_thread_metered == NULL)
        return;
    const void *payload = outcome->payload;
    stint_mask();
    void *copy = stint_malloc(outcome->payload_size);
    if (copy != NULL)
        memcpy(copy, payload, outcome->payload_size);
    else
        outcome->payload_size = 0;
    outcome->payload = copy;
    sti_process_free((void *)(uintptr_t)payload);
    stint_unmask();
}

/* --- stint_result_malloc and its family: blocks of the nursery, whatever the age of their scope. Any thread. */

/* In a scope, and charged. */
static void *result_make(struct sti_thread *thread, size_t size)
{
    return thread->scope->keeps == 0 ? sti_nursery_malloc_result(thread, size) : sti_backend_malloc(size);
}

STI_INLINE void *result_allocate(size_t size, const void *caller)
{
    struct sti_thread *thread = sti_thread_metered;
    if (thread == NULL || thread != sti_thread_counted || !sti_nursery_takes_result(thread, size))
        return sti_allocate(size, caller);
    if (!sti_meter_charge(thread, sti_meter_rounded(size), size, caller))
        return NULL;
    void *block = result_make(thread, size);
    return block != NULL ? sti_sampling_made(thread, block, size, 0, caller) : sti_allocate_failed();
}

void *stint_result_malloc(size_t size)
{
    return result_allocate(size, STI_CALLER());
}

void *stint_result_calloc(size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total))
        return sti_allocate_failed();
    void *block = result_allocate(total, STI_CALLER());
    return block != NULL ? memset(block, 0, total) : NULL;
}

void *stint_result_realloc(void *block, size_t size)
{
    void *moved = result_allocate(size, STI_CALLER());
    if (moved == NULL || block == NULL)
        return moved;
    size_t before = sti_backend_usable_size(block);
    memcpy(moved, block, before < size ? before : size);
    sti_free(block);
    return moved;
}

char *stint_result_strdup(const char *string)
{
    size_t size = strlen(string) + 1;
    char *copy = result_allocate(size, STI_CALLER());
    return copy != NULL ? memcpy(copy, string, size) : NULL;
}

bool sti_scope_is_in_account(const stint_account *account)
{
    const struct sti_thread *thread = sti_thread_own();
    const struct sti_scope *scope = thread != NULL ? thread->scope : NULL;
    while (scope != NULL && !sti_account_contains(account, scope->account))
        scope = scope->below;
    return scope != NULL;
}
