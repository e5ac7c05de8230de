/* SPDX-License-Identifier: MIT
 *
 * stint_run: a task on the thread that asks for it. Any thread. */
#include <errno.h>
#include <stdbool.h>
#include <stint/account.h>
#include <stint/context.h>
#include <stint/task.h>
#include <stint/token.h>

#include "alloc/base/module.h"
#include "alloc/base/thread.h"
#include "alloc/interrupt/interrupt.h"
#include "context.h"
#include "run.h"
#include "scope.h"

/* What the options refer to; others may release theirs while the task runs. */
struct references {
    stint_token *token;
    stint_account *account;
    stint_context *context;
};

static __attribute__((noinline)) struct references retain(const stint_options *options)
{
    return (struct references){ .token = stint_token_retain(options->token),
                                .account = stint_account_retain(options->account),
                                .context = stint_context_retain(options->context) };
}

static __attribute__((noinline)) void release(const struct references *references)
{
    stint_token_release(references->token);
    stint_account_release(references->account);
    stint_context_release(references->context);
}

/* With options that have been taken; a sample point is to follow. */
static inline __attribute__((always_inline)) int run(stint_fn *fn, void *arg, const stint_options *options,
                                                     stint_outcome *outcome)
{
    bool refers = ((uintptr_t)options->token | (uintptr_t)options->account | (uintptr_t)options->context) != 0;
    struct references references = { .token = NULL };
    if (__builtin_expect(refers, 0))
        references = retain(options);
    struct sti_scope_request request = {
        .fn = fn,
        .arg = arg,
        .options = options,
        .token = references.token,
    };
    int error = sti_scope_run(&request, outcome);
    if (__builtin_expect(refers, 0))
        release(&references);
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
    error = run(fn, arg, options != NULL ? options : &no_limits, outcome);
    if (sti_thread_metered != NULL)
        sti_interrupt_point(sti_thread_metered);
    return error;
}

int sti_run_taken(stint_fn *fn, void *arg, const stint_options *options, stint_outcome *outcome)
{
    return run(fn, arg, options, outcome);
}
