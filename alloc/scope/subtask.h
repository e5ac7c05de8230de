/* SPDX-License-Identifier: MIT
 *
 * Subtasks of one task on several threads, as the executor uses them. A task that shares something has a group
 * (shared_budget.h): what its threads charge, hold and are interrupted by together. A stolen subtask is a subtask of it
 * that runs in a scope of its own, on whatever thread took it. */
#ifndef STI_ALLOC_SCOPE_SUBTASK_H
#define STI_ALLOC_SCOPE_SUBTASK_H

#include <stdbool.h>
#include <stdint.h>
#include <stint/task.h>

struct sti_group;
struct sti_scope;

/* The group that the calling thread's innermost scope belongs to, made if there is none yet. Call it whenever something
 * is about to be shared, before another thread can see it: it says whether that may be done now. It stays until the
 * task has ended. 0; ENOMEM; ENOTSUP: there is no scope, or it is one that stint_run opened inside a task: what is
 * forked there runs there; EBUSY: interrupts are masked (what is forked there is not shared before the mask ends), or
 * the scope is being interrupted. */
int sti_group_open(struct sti_group **group);

/* Run fn(arg, value) as a stolen subtask of the group, here, and return its code. Any thread: one outside of all
 * scopes, or one that waits in a scope of the same group (the task's own thread too). The caller sees to it that the
 * task's scope does not end before this call has returned: whoever forked fn waits for it, in a join or in
 * sti_forks.settle.
 *
 * The stolen subtask has the task's budget, account, tokens, deadline and manner of being interrupted, and a resume
 * point of its own: an interrupt of the task ends it here. Then, and when the task had been interrupted before the
 * start, *interrupted is true and the code ECANCELED; otherwise *interrupted is false. Without memory for this thread's
 * part of the group, or without the watch of a preemptible one, fn is not called and the code is ENOMEM or EAGAIN.
 * *value is NULL at the start, and again when the stolen subtask was interrupted.
 *
 * What it leaves allocated is the task's. A code other than 0 is for whoever joins it and rolls nothing back. */
int sti_subtask_run(struct sti_group *group, stint_fn *fn, void *arg, void **value, bool *interrupted);

/* A thread that waits for a subtask reaches no sample point, and what it has freed before would count for the task's
 * memory limit as long as it waits. So: inside the scope that waits, each time it looks, and when sti_forks.wake has
 * woken it. One load and a few tests when nobody has asked. */
void sti_subtask_answer(void);

/* Heaps that stolen subtasks left on a thread may only be ended by that thread, and whether they are committed or
 * rolled back is known when the task has ended. So the thread keeps them until then; it is told by sti_forks.wake. */

/* End those that have been decided. Calling thread, outside of scopes: between tasks, when the thread was woken, and
 * before it sleeps. One load when there is nothing to do. The end of every outermost scope does it too. */
void sti_subtask_collect(void);

/* Whether the calling thread keeps heaps that have not been decided, or not been collected. Such a thread must not end:
 * a rollback would find its pages gone. */
bool sti_subtask_undecided(void);

/* Whether it keeps anything of a task that has not ended, be it without a heap: its end would wait for that task's. */
bool sti_subtask_keeps_share(void);

/* --- For scopes: the processor time of a group. Any thread of it. --- */

/* The processor time that is left to a stolen subtask which begins; 0: it is not limited. And what one took. Stolen
 * subtasks that run at once do not see each other's. */
uint64_t sti_group_cpu_left(struct sti_group *group);
void sti_group_add_cpu(struct sti_group *group, uint64_t used);

/* --- Of the task's own scope. --- */

/* The task's code has ended, after so much processor time, and its forks are settled: now it is known what all shares
 * charged, and what has tripped. */
void sti_group_close(struct sti_scope *scope, uint64_t cpu);

/* Add what the other shares had. */
void sti_group_add_usage(const struct sti_scope *scope, stint_usage *usage);

/* The scope lets go of it. */
void sti_group_end(struct sti_scope *scope, bool commits);

#endif
