/* SPDX-License-Identifier: MIT
 *
 * Running code in a scope; see run.h. */
#undef _FORTIFY_SOURCE
#include "run.h"

#include <errno.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/account.h>
#include <stint/task.h>
#include <stint/token.h>

#include "alloc/interrupt/abandoned_frames.h"
#include "alloc/interrupt/boundary.h"
#include "alloc/interrupt/forks.h"
#include "alloc/interrupt/hold.h"
#include "alloc/interrupt/interrupt.h"
#include "alloc/interrupt/stack.h"
#include "alloc/platform/machine.h"
#include "alloc/platform/process.h"
#include "alloc/platform/reporting.h"
#include "alloc/platform/scope_state.h"
#include "alloc/platform/thread.h"
#include "alloc/platform/tracing.h"
#include "context.h"
#include "scope.h"

/* --- stint_run. Any thread. --- */

/* What the options refer to; others may release theirs while the task runs. */
struct references {
    stint_token *token;
    stint_account *account;
    stint_context *context;
};

static __attribute__((noinline)) struct references references_retain(const stint_options *options)
{
    return (struct references){ .token = stint_token_retain(options->token),
                                .account = stint_account_retain(options->account),
                                .context = stint_context_retain(options->context) };
}

static __attribute__((noinline)) void references_release(const struct references *references)
{
    stint_token_release(references->token);
    stint_account_release(references->account);
    stint_context_release(references->context);
}

/* With options that have been taken; a sample point is to follow. */
static inline __attribute__((always_inline)) int run_taken(stint_fn *fn, void *arg, const stint_options *options,
                                                           stint_outcome *outcome, struct stint_report **report,
                                                           struct sti_limits *limits)
{
    bool refers = ((uintptr_t)options->token | (uintptr_t)options->account | (uintptr_t)options->context) != 0;
    struct references references = { .token = NULL };
    if (__builtin_expect(refers, 0))
        references = references_retain(options);
    struct sti_scope_request request = {
        .fn = fn,
        .arg = arg,
        .options = options,
        .token = references.token,
        .report = report,
        .limits = limits,
    };
    int error = sti_scope_run(&request, outcome);
    if (__builtin_expect(refers, 0))
        references_release(&references);
    if (error == 0 && outcome->payload != NULL)
        sti_payload_settle(outcome);
    return error;
}

int stint_run(stint_fn *fn, void *arg, const stint_options *options, stint_outcome *outcome)
{
    static const stint_options no_limits = STINT_OPTIONS_INIT;
    stint_options room;
    int error = fn != NULL && outcome != NULL ? sti_options_take(&options, &room) : EINVAL;
    if (error != 0)
        return error;
    sti_interrupt_near_stack_end();
    error = run_taken(fn, arg, options != NULL ? options : &no_limits, outcome, NULL, NULL);
    if (sti_thread_metered != NULL)
        sti_interrupt_point(sti_thread_metered);
    return error;
}

int sti_run_taken(stint_fn *fn, void *arg, const stint_options *options, stint_outcome *outcome,
                  struct stint_report **report, struct sti_limits *limits)
{
    return run_taken(fn, arg, options, outcome, report, limits);
}

/* --- The resume point: where the interrupts of a scope end. The one place that knows what has to survive a longjmp:
 * what is read after it, and may have been written between, lies in the caller's frame and not in this one's; and the
 * floating-point modes.
 *
 * The resume point saves no signal mask (that would cost 130 ns): the one signal handler that an interrupt is delivered
 * from has only its own signal blocked, and the end of its scope lets that through again. Thread of the scope. */

__attribute__((noinline)) void sti_scope_run_resumable(struct sti_scope *scope, stint_fn *fn, void *arg,
                                                       struct sti_resumed *resumed)
{
    /* They have to survive a call, but longjmp leaves them as it finds them: as the interrupted code had set them, or
     * in a signal handler as the system sets them. So a resume point puts them back. */
    const struct sti_float_modes modes = sti_float_modes_now();
    /* The frame that is jumped to: an unwind that went past it would leave it before. */
    scope->frame = STI_FRAME_ADDRESS();
    resumed->returned = _setjmp(scope->resume_point) == 0;
    if (resumed->returned) {
        resumed->code = sti_boundary_run(scope, fn, arg, &resumed->value);
        if (sti_process_is_partial())
            return;
        if (__builtin_expect(sti_misuse_is_left(scope), 0))
            resumed->code =
                scope->is_subtask ? sti_misuse_fail_task(scope, resumed->code) : sti_misuse_fail(scope, resumed->code);
    } else {
        resumed->value = NULL;
        sti_float_modes_set(&modes);
    }
    if (__builtin_expect(!resumed->returned || scope->tripped != STINT_REASON_NONE, 0))
        sti_stack_settle();
    if (sti_forks_are_left(scope))
        resumed->code = sti_forks_give_up(scope);
}

/* --- What debug mode, a trace and the rates of samples see of scopes. Thread of the scope. --- */

/* By a trace alone: the quickest of these, as it may be on while everything is as usual. */
static bool by_trace_alone(void)
{
    return atomic_load_explicit(&sti_scopes_observed, memory_order_relaxed) == STI_OBSERVED_TRACE;
}

/* Of a scope that nobody has looked at the clock for, it is now. */
static uint64_t run_time(const struct sti_scope *scope, uint64_t ns)
{
    return scope->untimed ? 0 : ns;
}

static inline void run_trace_begin(const struct sti_scope *scope)
{
    if (sti_trace_runs() && !sti_trace_loses_task(scope->thread))
        sti_trace_begin_task(scope->thread, scope, run_time(scope, scope->start), scope->request);
}

static inline void trace_end(const struct sti_scope *scope, uint64_t end, const stint_outcome *outcome)
{
    if (sti_trace_runs() && sti_trace_has_open(scope->thread))
        sti_trace_end_task(scope->thread, scope, run_time(scope, end), outcome);
}

static __attribute__((noinline)) bool run_begin(const struct sti_scope *scope)
{
    if (scope->request->options->sample_rate > 0 || scope->thread->sampling.rates != NULL)
        sti_hooks.sampling.begin_scope(scope);
    run_trace_begin(scope);
    if (sti_debug_is_on)
        sti_debug_name_thread(scope);
    return sti_debug_is_on;
}

bool sti_scope_begin_observed(const struct sti_scope *scope)
{
    if (!by_trace_alone())
        return run_begin(scope);
    run_trace_begin(scope);
    return false;
}

void sti_scope_end_debugged(struct sti_scope *scope)
{
    sti_misuse_look_at_holds(scope);
    sti_debug_name_thread(scope->below);
}

static __attribute__((noinline)) void run_end(struct sti_scope *scope, uint64_t ns, const stint_outcome *outcome)
{
    if (scope->thread->sampling.rates != NULL && !sti_reporting_will_begin_end(scope, outcome->reason))
        sti_hooks.sampling.end_scope(scope);
    if (sti_debug_is_on)
        sti_scope_end_debugged(scope);
    trace_end(scope, ns, outcome);
}

void sti_scope_end_observed(struct sti_scope *scope, uint64_t ns, const stint_outcome *outcome)
{
    if (by_trace_alone())
        trace_end(scope, ns, outcome);
    else
        run_end(scope, ns, outcome);
}
