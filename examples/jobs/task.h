/* SPDX-License-Identifier: MIT
 *
 * A document as a task of a pool, with a budget of its own, in place or behind a wall. Whoever has the record submits
 * it, waits for its future, and then asks what came of it; until the future has resolved, the record is the task's. */
#ifndef JOBS_TASK_H
#define JOBS_TASK_H

#include "wall.h"

#include <stdatomic.h>
#include <stdbool.h>

typedef struct parse_task {
    parse_document document;    /* in, and out */
    const stint_budget *budget; /* in */
    stint_wall *wall;           /* in: whose child parses it; NULL: it is parsed in place */
    stint_future *future;       /* out: to be released */
    stint_report *why;          /* out: it was not Ok; NULL: it was, or never ran; to be released */
    atomic_bool begun;          /* out: in place it has been begun; any thread */
} parse_task;

/* Submit it. As stint_submit and, of a file that cannot be opened, open, with the document's detail filled. The time
 * that a document waits behind others is not its own: limits hold from its start. Any thread. */
int parse_task_submit(parse_task *task, stint_pool *pool, stint_token *token);

/* Wait for it, fill in what is out above, and let go of its future. Once; any thread. */
stint_outcome parse_task_take(parse_task *task);

#endif
