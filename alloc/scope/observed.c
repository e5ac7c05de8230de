/* SPDX-License-Identifier: MIT
 *
 * What debug mode, a trace and the rates of samples see of scopes; see observed.h. Thread of the scope. */
#include "observed.h"

#include "alloc/base/reporting.h"
#include "alloc/base/sampling.h"
#include "alloc/base/scope_state.h"
#include "alloc/base/thread.h"
#include "alloc/base/tracing.h"
#include "alloc/interrupt/hold.h"

/* Of a scope that nobody has looked at the clock for, it is now. */
static uint64_t time_of(const struct sti_scope *scope, uint64_t ns)
{
    return scope->untimed ? 0 : ns;
}

bool sti_scope_begin_observed(const struct sti_scope *scope)
{
    const struct sti_scope_request *request = scope->request;
    if (request->options->sample_rate > 0 || scope->thread->sampling.rates != NULL)
        sti_sampling_hooks->begin_scope(scope);
    if (sti_trace_runs())
        sti_trace_begin_task(scope, time_of(scope, scope->start), request->options->name, request->fn);
    if (sti_debug_is_on)
        sti_debug_name_thread(scope);
    return sti_debug_is_on;
}

void sti_scope_end_debugged(struct sti_scope *scope)
{
    sti_misuse_look_at_holds(scope);
    sti_debug_name_thread(scope->below);
}

void sti_scope_end_observed(struct sti_scope *scope, uint64_t end, const stint_outcome *outcome)
{
    if (scope->thread->sampling.rates != NULL && !sti_reporting_will_begin_end(scope, outcome->reason))
        sti_sampling_hooks->end_scope(scope);
    if (sti_debug_is_on)
        sti_scope_end_debugged(scope);
    if (sti_trace_runs())
        sti_trace_end_task(scope, time_of(scope, end), outcome);
}
