/* SPDX-License-Identifier: MIT
 *
 * Errors with a payload; see payload.h. */
#include "payload.h"

#include <stint/alloc.h>
#include <stint/interrupt.h>
#include <string.h>

#include "family.h"
#include "process.h"
#include "record.h"
#include "scope_state.h"

static bool is_branch(const struct sti_scope *scope)
{
    return scope->is_inner_branch || (scope->member != NULL && scope->member->family->thread != scope->thread);
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
    if (thread == NULL || is_branch(thread->scope) || (payload == NULL && size > 0))
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
