/* SPDX-License-Identifier: MIT
 *
 * Farewells: when stint_pool_destroy returns, the callbacks of the pool's tasks have returned. Those of a task that
 * a worker ran have before the worker leaves. But a task that is ended unstarted, by stint_future_cancel or at its
 * deadline, is ended by any thread, which may be in its callbacks for long after the task's entry has been dropped.
 * Whoever drops such an entry therefore notes the task, unless all of that is over; and stint_pool_destroy waits for
 * those that are noted. Each that is noted has two others looked at, in turn, and taken off if their callbacks are
 * over: so as many are noted as were at once under way, and not as many as there have been. */
#ifndef STI_EXECUTOR_TASK_FAREWELLS_H
#define STI_EXECUTOR_TASK_FAREWELLS_H

#include "executor/base/state.h"

void sti_farewells_init(struct sti_farewells *farewells);
void sti_farewells_end(struct sti_farewells *farewells);

/* Drop the entry of a task that the caller has not claimed, and its reference; count the outcome if it never starts.
 * Any thread, while the pool cannot be freed. */
void sti_farewell_drop(stint_pool *pool, sti_task *task);

/* The caller is about to end a task that it has claimed, without an entry that somebody would drop later. */
void sti_farewell_note(stint_pool *pool, sti_task *task);

/* Wait until those who are noted have resolved, and all who followed them have been told. Nothing is noted any more. */
void sti_farewell_await_all(stint_pool *pool);

#endif
