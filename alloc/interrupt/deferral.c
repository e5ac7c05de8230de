/* SPDX-License-Identifier: MIT
 *
 * What an interrupt has to wait for, but for frames on the stack: the rules, which is the first to hold, and the note
 * of it for those who ask; see deferral.h. Thread of the scope, some in its signal handlers too. */
#include "deferral.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/base/probe.h"
#include "alloc/base/tracing.h"
#include "cxx.h"
#include "hold.h"

static stint_deferral of_holds(const struct sti_holds *holds)
{
    static const stint_deferral kinds[] = {
        [STI_HOLD_LOCK] = STINT_DEFERRAL_LOCK,
        [STI_HOLD_ONCE] = STINT_DEFERRAL_ONCE,
        [STI_HOLD_STATIC] = STINT_DEFERRAL_STATIC,
        [STI_HOLD_SEMAPHORE] = STINT_DEFERRAL_LOCK,
    };
    if (!sti_rules_hold(holds))
        return STINT_DEFERRAL_NONE;
    return holds->named > 0 ? kinds[(uintptr_t)holds->objects[holds->named - 1] & STI_HOLD_KINDS] : STINT_DEFERRAL_LOCK;
}

/* On its way an exception has to arrive: the runtime counts it, and may have made it in its reserve of memory. A jump
 * out of a catch block would leave its exception on the runtime's list of the thread. */
stint_deferral sti_deferral_of_one(const struct sti_scope *scope)
{
    if (scope->masks > 0)
        return STINT_DEFERRAL_MASK;
    if (sti_rule_is_on(STI_RULE_THROW) && sti_cxx_is_throwing(&scope->cxx))
        return STINT_DEFERRAL_THROW;
    if (sti_rule_is_on(STI_RULE_CATCH) && sti_cxx_is_catching(&scope->cxx))
        return STINT_DEFERRAL_CATCH;
    return of_holds(&scope->holds);
}

stint_deferral sti_deferral_of(const struct sti_scope *innermost)
{
    stint_deferral deferral = innermost->masks == 0 && sti_hold_locks > 0 && sti_rule_is_on(STI_RULE_LOCK)
                                  ? STINT_DEFERRAL_LOCK
                                  : STINT_DEFERRAL_NONE;
    for (const struct sti_scope *scope = innermost; deferral == STINT_DEFERRAL_NONE && scope != NULL;) {
        deferral = sti_deferral_of_one(scope);
        scope = scope->tripped == STINT_REASON_NONE ? scope->outer : NULL;
    }
    return deferral;
}

void sti_deferral_note(struct sti_thread *thread)
{
    stint_deferral deferral = sti_deferral_of(thread->scope);
    if (deferral == STINT_DEFERRAL_NONE)
        deferral = STINT_DEFERRAL_FRAME;
    sti_deferral_count(thread, deferral);
    atomic_store_explicit(&thread->deferral, (int)deferral, memory_order_relaxed);
    STI_PROBE2(deferred, thread->scope, deferral);
    if (sti_trace_runs())
        sti_trace_interrupt(STI_TRACE_DEFERRED, (int)deferral);
}

stint_deferral sti_deferral_noted(const struct sti_thread *thread)
{
    return (stint_deferral)atomic_load_explicit(&thread->deferral, memory_order_relaxed);
}
