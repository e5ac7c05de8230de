/* SPDX-License-Identifier: MIT
 *
 * Stepping aside: for a while the thread is as if in no scope at all. What it allocates comes from the process's heap and
 * is charged to nobody, nothing is a sample point, and scopes that it opens are nobody's inner ones. For the executor,
 * which calls the application's code in a task's midst that is not the task's. Calling thread only. */
#ifndef STI_ALLOC_ASIDE_H
#define STI_ALLOC_ASIDE_H

#include "thread.h"

struct sti_aside {
    struct sti_thread *thread; /* NULL: it was in no scope */
    struct sti_scope *scope;
    sti_backend_theap *allocating;
    size_t small;
    uint64_t started;
};

void sti_aside_begin(struct sti_aside *aside);
void sti_aside_end(const struct sti_aside *aside);

#endif
