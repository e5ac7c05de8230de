/* SPDX-License-Identifier: MIT
 *
 * A document as a task of a pool, with a budget of its own. Whoever has the record submits it, waits for its future,
 * and then asks what came of it; until the future has resolved, the record is the task's. */
#ifndef JOBS_TASK_H
#define JOBS_TASK_H

#include "parse.h"

typedef struct parse_task {
    parse_document document;    /* in, and out */
    const stint_budget *budget; /* in */
    stint_future *future;       /* out: to be released */
    stint_report *why;          /* out: it was not Ok; NULL: it was, or never ran; to be released */
    stint_outcome inner;        /* for parse_task_outcome */
} parse_task;

/* Submit it. As stint_submit. The time that a document waits behind others is not its own: limits hold from its start.
 * Any thread. */
int parse_task_submit(parse_task *task, stint_pool *pool, stint_token *token);

/* What came of a task whose future has resolved as outer says. Any thread. */
stint_outcome parse_task_outcome(const parse_task *task, const stint_outcome *outer);

#endif
