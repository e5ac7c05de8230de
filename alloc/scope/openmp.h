/* SPDX-License-Identifier: MIT
 *
 * The threads of an OpenMP runtime as those of a task (joined_thread.h). libgomp keeps its threads for the thread that
 * it has started them on, and ends them there: so when the code of a scope has ended, so do they. Calling thread
 * only. */
#ifndef STI_ALLOC_SCOPE_OPENMP_H
#define STI_ALLOC_SCOPE_OPENMP_H

#include <stdbool.h>

struct link_map;

/* The runtime that this caller is in; NULL: it is in none. */
const struct link_map *sti_openmp_of(const void *caller);

/* False: a runtime whose threads are the process's, as those of LLVM's are, or cannot be ended. */
bool sti_openmp_can_end(const struct link_map *openmp);

/* It has started a thread of a task here. */
void sti_openmp_keeps(const struct link_map *openmp);

/* The code of the calling thread's scope has ended: so do the threads that libgomp keeps for the calling thread, if
 * they are a task's. One load where there are none. */
void sti_openmp_end(void);

#endif
