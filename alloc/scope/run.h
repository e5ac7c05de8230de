/* SPDX-License-Identifier: MIT
 *
 * Running code in a scope: stint_run, for those who do more with what comes of it; and for the scopes of tasks and of
 * subtasks alike, the resume point, and what is seen of them as they begin and end. */
#ifndef STI_ALLOC_SCOPE_RUN_H
#define STI_ALLOC_SCOPE_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <stint/task.h>

struct sti_limits;
struct sti_scope;
struct stint_report;

/* stint_run with valid arguments and options that have been taken (scope.h), and without the sample point at its end;
 * its report, if there is one, goes to *report. limits: others may change them; NULL: nobody may. Any thread. */
int sti_run_taken(stint_fn *fn, void *arg, const stint_options *options, stint_outcome *outcome,
                  struct stint_report **report, struct sti_limits *limits);

/* --- The resume point of a scope: its function is run above it, and its interrupts end there. For a task's own scope
 * and a stolen subtask's. Thread of the scope. --- */

/* What the function of a scope has come to. */
struct sti_resumed {
    bool returned; /* false: it was interrupted; then the code is as it was before, and the value NULL */
    int code;
    void *value;
};

/* Run fn(arg, &resumed->value) in the scope, which is open. */
void sti_scope_run_resumable(struct sti_scope *scope, stint_fn *fn, void *arg, struct sti_resumed *resumed);

/* --- What debug mode, a trace and the rates of samples see of scopes as they begin and end, off the common path.
 * Thread of the scope. --- */

/* The scope is being opened. True: it has no nursery. */
bool sti_scope_begin_observed(const struct sti_scope *scope);

/* Its function has ended then (by sti_clock_now), and this is known of its outcome. */
void sti_scope_end_observed(struct sti_scope *scope, uint64_t end, const stint_outcome *outcome);

/* Debug mode's part of it: look what it holds, and have the thread called as it was. */
void sti_scope_end_debugged(struct sti_scope *scope);

#endif
