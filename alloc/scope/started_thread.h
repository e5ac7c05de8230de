/* SPDX-License-Identifier: MIT
 *
 * What threads of a task's own (joined_thread.h) are started by: libc, and the runtimes of OpenMP. For joined_thread.c
 * and the overrides of what starts threads (override_wait.c). */
#ifndef STI_ALLOC_SCOPE_STARTED_THREAD_H
#define STI_ALLOC_SCOPE_STARTED_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* --- libc's own functions for threads, whatever this library overrides. Any thread. --- */

int sti_plain_create(pthread_t *id, const pthread_attr_t *attributes, void *(*function)(void *arg), void *arg);
int sti_plain_join(pthread_t id, void **value);

/* EBUSY: it has not ended. */
int sti_plain_tryjoin(pthread_t id, void **value);

int sti_plain_detach(pthread_t id);

/* --- The threads of an OpenMP runtime as those of a task. libgomp keeps its threads for the thread that it has started
 * them on, and ends them there: so when the code of a scope has ended, so do they. Calling thread only. */

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
