/* SPDX-License-Identifier: MIT
 *
 * A document as a task of a pool: in place with two scopes, one in the other, or behind a wall. */
#include "task.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In place. */

/* What the pool runs: the document in a scope of its own. The budget is the inner scope's: a wall limit given to the
 * pool counts from the submission, and a document shall not pay for the time that it waited behind others. The token is
 * the outer scope's: once it is set, a jump leaves both at once, and the future knows the outcome. */
static int run_in_scope(void *argument, void **value)
{
    (void)value;
    parse_task *task = argument;
    atomic_store_explicit(&task->begun, true, memory_order_relaxed);
    stint_options options = parse_options(task->document.kind);
    options.budget = *task->budget;
    options.name = task->document.path;
    options.report = STINT_REPORT_HEAP;
    return stint_run_reported(parse_document_run, &task->document, &options, &task->inner, &task->why);
}

static int submit_in_place(parse_task *task, stint_pool *pool, stint_token *token)
{
    stint_options options = parse_options(task->document.kind);
    options.token = token;
    options.name = task->document.path;
    return stint_submit(pool, run_in_scope, task, &options, &task->future);
}

/* Behind a wall. */

static void close_file(stint_future *future, const stint_outcome *outcome, void *file)
{
    (void)future;
    (void)outcome;
    close((int)(intptr_t)file);
}

/* It must stay open until the task has ended, which may be long before somebody asks what came of it. */
static void close_at_end(stint_future *future, int file)
{
    if (stint_future_then(future, close_file, (void *)(intptr_t)file) == 0)
        return;
    stint_future_wait(future, NULL); /* there is no memory for a callback */
    close(file);
}

static int submit_file(parse_task *task, stint_pool *pool, stint_token *token, int file)
{
    stint_options options = parse_options(task->document.kind);
    options.token = token;
    options.name = task->document.path;
    options.report = STINT_REPORT_HEAP;
    options.budget = *task->budget;
    options.budget.run_ns = options.budget.wall_ns;
    options.budget.wall_ns = 0;
    stint_wall_call call = STINT_WALL_CALL_INIT;
    call.fn = parse_wall_run;
    call.input = &task->document.kind;
    call.input_size = sizeof task->document.kind;
    call.fds = &file;
    call.fd_count = 1;
    return stint_submit_walled_call(pool, task->wall, &call, &options, &task->future);
}

static int submit_walled(parse_task *task, stint_pool *pool, stint_token *token)
{
    int file = open(task->document.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int error = file < 0 ? errno : submit_file(task, pool, token, file);
    if (error == 0) {
        close_at_end(task->future, file);
    } else {
        parse_unread(&task->document, error);
        if (file >= 0)
            close(file);
    }
    return error;
}

/* What the child has said is copied, and may be anything. */
static void take_walled(parse_task *task, stint_outcome *outcome)
{
    parse_document *document = &task->document;
    if (outcome->status == STINT_OK && outcome->payload_size == sizeof document->items)
        memcpy(&document->items, outcome->value, sizeof document->items);
    else if (outcome->reason == STINT_REASON_FAILED && outcome->payload)
        snprintf(document->detail, sizeof document->detail, "%.*s", (int)outcome->payload_size,
                 (const char *)outcome->payload);
    stint_future_report(task->future, &task->why);
    free(outcome->value);
    outcome->value = NULL;
    outcome->payload = NULL; /* it goes with the future */
    outcome->payload_size = 0;
}

/* Either. */

int parse_task_submit(parse_task *task, stint_pool *pool, stint_token *token)
{
    return task->wall ? submit_walled(task, pool, token) : submit_in_place(task, pool, token);
}

stint_outcome parse_task_outcome(const parse_task *task, const stint_outcome *outer)
{
    if (outer->status != STINT_OK || task->wall)
        return *outer;
    stint_outcome outcome = task->inner;
    outcome.usage.queued_ns = outer->usage.queued_ns;
    return outcome;
}

stint_outcome parse_task_take(parse_task *task)
{
    stint_outcome outer;
    stint_future_wait(task->future, &outer);
    if (task->wall)
        take_walled(task, &outer);
    stint_future_release(task->future);
    return parse_task_outcome(task, &outer);
}
