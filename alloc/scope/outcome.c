/* SPDX-License-Identifier: MIT
 *
 * What a task leaves: statuses and reasons in words, the payload of its error, its result. Calling thread's innermost scope. */
#include "outcome.h"

#include <stddef.h>
#include <stint/alloc.h>
#include <stint/interrupt.h>
#include <stint/result.h>
#include <stint/task.h>
#include <string.h>

#include "alloc/base/process.h"
#include "alloc/base/sampling.h"
#include "alloc/base/scope_state.h"
#include "alloc/charge/allocate.h"
#include "alloc/charge/meter.h"
#include "alloc/charge/shared_budget.h"
#include "alloc/rollback/free.h"
#include "alloc/rollback/nursery.h"

/* --- Statuses and reasons in words. Any thread. --- */

const char *stint_status_name(stint_status status)
{
    switch (status) {
    case STINT_OK:
        return "ok";
    case STINT_ERROR:
        return "error";
    case STINT_CANCELLED:
        return "cancelled";
    }
    return "unknown";
}

const char *stint_reason_name(stint_reason reason)
{
    switch (reason) {
    case STINT_REASON_NONE:
        return "none";
    case STINT_REASON_FAILED:
        return "failed";
    case STINT_REASON_ALLOCATION_LIMIT:
        return "allocation-limit";
    case STINT_REASON_MEMORY_LIMIT:
        return "memory-limit";
    case STINT_REASON_DEADLINE:
        return "deadline";
    case STINT_REASON_TOKEN:
        return "token";
    case STINT_REASON_SHUTDOWN:
        return "shutdown";
    case STINT_REASON_GLOBAL_MEMORY_LIMIT:
        return "global-memory-limit";
    case STINT_REASON_ACCOUNT:
        return "account";
    case STINT_REASON_OUTER:
        return "outer";
    case STINT_REASON_TRACKER:
        return "tracker";
    case STINT_REASON_EXCEPTION:
        return "exception";
    case STINT_REASON_CPU:
        return "cpu";
    case STINT_REASON_EXPIRED:
        return "expired";
    }
    return "unknown";
}

const char *stint_deferral_name(stint_deferral deferral)
{
    static const char *const names[] = {
        [STINT_DEFERRAL_NONE] = "none",   [STINT_DEFERRAL_MASK] = "mask",   [STINT_DEFERRAL_LOCK] = "lock",
        [STINT_DEFERRAL_THROW] = "throw", [STINT_DEFERRAL_ONCE] = "once",   [STINT_DEFERRAL_STATIC] = "static",
        [STINT_DEFERRAL_CATCH] = "catch", [STINT_DEFERRAL_FRAME] = "frame",
    };
    return (size_t)deferral < sizeof names / sizeof *names ? names[deferral] : "unknown";
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

void sti_payload_hand_over(struct sti_scope *scope, stint_outcome *outcome)
{
    if (outcome->reason != STINT_REASON_FAILED) {
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
static void *make(struct sti_thread *thread, size_t size)
{
    return thread->scope->keeps == 0 ? sti_nursery_malloc_result(thread, size) : sti_backend_malloc(size);
}

STI_INLINE void *allocate(size_t size, const void *caller)
{
    struct sti_thread *thread = sti_thread_metered;
    if (thread == NULL || thread != sti_thread_counted || !sti_nursery_takes_result(thread, size))
        return sti_allocate(size, caller);
    if (!sti_meter_charge(thread, sti_meter_rounded(size), size, caller))
        return NULL;
    void *block = make(thread, size);
    return block != NULL ? sti_sampling_made(thread, block, size, 0, caller) : sti_allocate_failed();
}

void *stint_result_malloc(size_t size)
{
    return allocate(size, STI_CALLER());
}

void *stint_result_calloc(size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total))
        return sti_allocate_failed();
    void *block = allocate(total, STI_CALLER());
    return block != NULL ? memset(block, 0, total) : NULL;
}

void *stint_result_realloc(void *block, size_t size)
{
    void *moved = allocate(size, STI_CALLER());
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
    char *copy = allocate(size, STI_CALLER());
    return copy != NULL ? memcpy(copy, string, size) : NULL;
}
