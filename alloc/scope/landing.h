/* SPDX-License-Identifier: MIT
 *
 * The landing of a scope: its function is run above it, and its interrupts end there. For a task's own scope, a stolen
 * subtask's and a thread's of the task. Thread of the scope. */
#ifndef STI_ALLOC_SCOPE_LANDING_H
#define STI_ALLOC_SCOPE_LANDING_H

#include <stdbool.h>
#include <stint/task.h>

#include "alloc/interrupt/boundary.h"

struct sti_scope;

/* What the function of a scope has come to. */
struct sti_landed {
    bool returned; /* false: it was interrupted; then the code is as it was before, and the value NULL */
    int code;
    void *value;
    struct sti_thrown thrown; /* of a subtask: its exception, for whoever joins it */
    stint_outcome *outcome;   /* of a task: for the message of its exception */
};

/* Run fn(arg, &landed->value) in the scope, which is open. */
void sti_scope_land(struct sti_scope *scope, stint_fn *fn, void *arg, struct sti_landed *landed);

#endif
