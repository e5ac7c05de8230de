/* SPDX-License-Identifier: MIT
 *
 * What debug mode, a trace and the rates of samples see of scopes as they begin and end, off the common path. Thread of
 * the scope. */
#ifndef STI_ALLOC_SCOPE_OBSERVED_H
#define STI_ALLOC_SCOPE_OBSERVED_H

#include <stdbool.h>
#include <stdint.h>
#include <stint/task.h>

struct sti_scope;

/* The scope is being opened. True: it is barred from the nursery. */
bool sti_scope_begin_observed(const struct sti_scope *scope);

/* Its function has ended then (by sti_clock_now), and this is known of its outcome. */
void sti_scope_end_observed(struct sti_scope *scope, uint64_t end, const stint_outcome *outcome);

/* Debug mode's part of it: look what it holds, and have the thread called as it was. */
void sti_scope_end_debugged(struct sti_scope *scope);

#endif
