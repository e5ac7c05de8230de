/* SPDX-License-Identifier: MIT
 *
 * Threads that a task has started and that are the task's (STINT_THREADS_CHARGED). Such a thread joins the task's group
 * (shared_budget.h): its function runs in a scope like a stolen subtask's, which has the thread for itself. The
 * overrides of what starts threads and waits for their end (override_wait.c) call this; so does the end of a task's own
 * scope. */
#ifndef STI_ALLOC_SCOPE_JOINED_THREAD_H
#define STI_ALLOC_SCOPE_JOINED_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stint/task.h>
#include <threads.h>

struct sti_group;
struct sti_joined;
struct sti_scope;

/* What a thread is to run: one of the two functions, with this. */
struct sti_start {
    void *(*function)(void *arg);
    thrd_start_t c11_function;
    void *arg;
};

static inline void *sti_start_call(const struct sti_start *start)
{
    if (start->function != NULL)
        return start->function(start->arg);
    return (void *)(intptr_t)start->c11_function(start->arg);
}

/* Start one that joins the task which the calling thread runs. As pthread_create: 0; EAGAIN: also where the task must
 * not have it. A sample point, which may not return. */
int sti_joined_start(pthread_t *id, const pthread_attr_t *attributes, const struct sti_start *start,
                     const void *caller);

/* The thread is about to be joined: NULL: it is none of these, or *error says why it cannot be. Then, whether it has
 * been: otherwise it can be joined again. Any thread. */
struct sti_joined *sti_joined_begin_join(pthread_t id, int *error);
void sti_joined_end_join(struct sti_joined *joined, bool is_joined);

/* The thread is detached. False: it is none of these; otherwise *error is what pthread_detach returns. Any thread. */
bool sti_joined_detach(pthread_t id, int *error);

/* A thread has these ids, so no other one has them any more. Of the calling thread, which begins; or of one that it has
 * started: then the kernel's is 0. A load where no task has such threads. */
void sti_joined_take_ids(pthread_t id, int kernel_id);

/* --- Of scopes --- */

/* The calling thread's scope, which is one of these, is left by the thread's end: it ends here. */
void sti_joined_leave(struct sti_scope *scope);

/* The task's own scope, which has a group, closes; its code has failed, or not. Wait until the scopes of all its
 * threads have closed; those of a task that has failed are interrupted. False: there were none. */
bool sti_joined_await(struct sti_scope *scope, bool failed);

/* Wait until they are gone, and take over what they left. Those that nobody can join, or that nobody may any more,
 * leave nothing of themselves behind. */
void sti_joined_reap(struct sti_scope *scope, bool fails);

#endif
