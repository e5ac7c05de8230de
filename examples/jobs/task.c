/* SPDX-License-Identifier: MIT
 *
 * A document as a task of a pool, in place or behind a wall. */
#include "task.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The time that a document waits behind others is not its own: its limit of time counts from the start. */
static stint_options options_of(const parse_task *task, stint_token *token)
{
    stint_options options = parse_options(task->document.kind);
    options.token = token;
    options.name = task->document.path;
    options.report = STINT_REPORT_HEAP;
    options.budget = *task->budget;
    options.budget.run_ns = options.budget.wall_ns;
    options.budget.wall_ns = 0;
    return options;
}

/* In place. */

static int run_in_place(void *argument, void **value)
{
    parse_task *task = argument;
    atomic_store_explicit(&task->begun, true, memory_order_relaxed);
    return parse_document_run(&task->document, value);
}

static int submit_in_place(parse_task *task, stint_pool *pool, stint_token *token)
{
    stint_options options = options_of(task, token);
    return stint_submit(pool, run_in_place, task, &options, &task->future);
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
    stint_options options = options_of(task, token);
    stint_wall_call call = STINT_WALL_CALL_INIT;
    call.fn = parse_wall_run;
    call.input = &task->document.kind;
    call.input_size = sizeof task->document.kind;
    call.fds = &file;
    call.fd_count = 1;
    return stint_submit_walled_call(pool, task->wall, &call, &options, &task->future);
}

/* A file in memory, as the child reads files. */
static int make_file_of(const char *text, size_t size)
{
    int file = memfd_create("document", MFD_CLOEXEC);
    for (size_t written = 0; file >= 0 && written < size;) {
        ssize_t count = pwrite(file, text + written, size - written, (off_t)written);
        if (count < 0 && errno != EINTR) {
            int error = errno;
            close(file);
            errno = error;
            return -1;
        }
        written += count > 0 ? (size_t)count : 0;
    }
    return file;
}

static int open_document(const parse_document *document)
{
    if (document->text)
        return make_file_of(document->text, document->size);
    return open(document->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

static int submit_walled(parse_task *task, stint_pool *pool, stint_token *token)
{
    int file = open_document(&task->document);
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

stint_outcome parse_task_take(parse_task *task)
{
    stint_outcome outcome;
    stint_future_wait(task->future, &outcome);
    if (task->wall)
        take_walled(task, &outcome);
    stint_future_report(task->future, &task->why);
    stint_future_release(task->future);
    return outcome;
}
