/* SPDX-License-Identifier: MIT
 *
 * When a running task has to be looked at. A task that allocates looks at the clock in its sample points; one that
 * allocates rarely would do so late. So a thread whose scopes have limits of time publishes when the next of these is
 * due, and the watch pokes it then: its next allocation is a sample point, which reads the exact clock.
 *
 *   thread:  due = time (seq_cst) ... load next_look (watch.h), post the semaphore if that is later
 *   watch:   next_look = NEVER (seq_cst) ... load due (seq_cst); passed: due = POKED, limit = 0
 *
 * Thread of the scope. */
#ifndef STI_ALLOC_DUE_H
#define STI_ALLOC_DUE_H

#include <stdbool.h>
#include <stdint.h>

struct sti_scope;
struct sti_thread;

#define STI_DUE_NEVER UINT64_MAX
#define STI_DUE_POKED UINT64_C(0) /* since it was set: what was due has come */

/* A scope with a limit of time has opened. */
void sti_due_begin(struct sti_thread *thread, const struct sti_scope *scope);

/* What is due has changed: it has passed without effect, or the innermost scope is this one now (NULL: none). */
void sti_due_renew(struct sti_thread *thread, const struct sti_scope *scope);

/* Whether the thread has been poked since. */
bool sti_due_is_over(const struct sti_thread *thread);

/* The time: exact after a poke, otherwise the cheap clock's. */
uint64_t sti_due_clock(const struct sti_thread *thread);

#endif
