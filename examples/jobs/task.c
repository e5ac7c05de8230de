/* SPDX-License-Identifier: MIT
 *
 * A document as a task of a pool: two scopes, one in the other. */
#include "task.h"

/* What the pool runs: the document in a scope of its own. The budget is the inner scope's: a wall limit given to the
 * pool counts from the submission, and a document shall not pay for the time that it waited behind others. The token is
 * the outer scope's: once it is set, a jump leaves both at once, and the future knows the outcome. */
static int run_in_scope(void *argument, void **value)
{
    (void)value;
    parse_task *task = argument;
    stint_options options = parse_options(task->document.kind);
    options.budget = *task->budget;
    options.name = task->document.path;
    options.report = STINT_REPORT_HEAP;
    return stint_run_reported(parse_document_run, &task->document, &options, &task->inner, &task->why);
}

int parse_task_submit(parse_task *task, stint_pool *pool, stint_token *token)
{
    stint_options options = parse_options(task->document.kind);
    options.token = token;
    options.name = task->document.path;
    return stint_submit(pool, run_in_scope, task, &options, &task->future);
}

stint_outcome parse_task_outcome(const parse_task *task, const stint_outcome *outer)
{
    if (outer->status != STINT_OK)
        return *outer;
    stint_outcome outcome = task->inner;
    outcome.usage.queued_ns = outer->usage.queued_ns;
    return outcome;
}
