/* SPDX-License-Identifier: MIT
 *
 * Charging the library's own records; see record.h. Calling thread only. */
#include "record.h"

#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"

/* A profile that runs is not told of them: it follows blocks of the program's. */

/* Where only the task's own limit could refuse it, and does not, that is known without a sample point: which would give
 * the scope a heap, that a task which only submits does without. */
static bool is_free_to_charge(const struct sti_thread *thread, uint64_t after)
{
    const struct sti_scope *scope = thread->scope;
    return scope->outer == NULL && scope->account == NULL && scope->share == NULL && after <= scope->allocation_end &&
           after <= thread->sampling.next && scope->tripped == STINT_REASON_NONE;
}

bool sti_record_charge_beyond(struct sti_thread *thread, uint64_t charge, const void *caller)
{
    if (is_free_to_charge(thread, thread->used + charge)) {
        thread->used += charge;
        return true;
    }
    bool charged = sti_meter_sample(thread, charge, 0, caller);
    thread->sampling.samples = 0;
    return charged;
}
