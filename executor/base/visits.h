/* SPDX-License-Identifier: MIT
 *
 * Visiting: another thread looks at tasks that it has no reference to, in queues and on workers. Those who end and
 * free tasks pay one load each for that.
 *
 *   visitor   visits = 1 (an exchange); a barrier; looks at queues, deques, running ...; visits = 0, wakes
 *   the one who takes a task out     an entry of a queue, or the task that a worker runs, is not to be seen any more;
 *                                    a barrier; reads visits; while it is 1, waits; resolves or frees the task
 *
 * Both write, pass a barrier and read: so either the visitor does not see the task any more, or who took it out sees
 * the visitor. A task that the visitor has seen and that had not resolved then does not resolve until it is done, so
 * its options, its name and its account are there; one that has is not freed. The barrier is that of the claim of a
 * queue's entry, which is tried in any case, and the exchange with which a worker leaves a task. A worker's frames lie
 * on its stack: a thread that leaves one, a stolen subtask's too, waits in the same way before it is gone.
 *
 * One visitor at a time. It calls nobody and waits for nobody but a lock of the pool's under which nothing resolves. */
#ifndef STI_EXECUTOR_BASE_VISITS_H
#define STI_EXECUTOR_BASE_VISITS_H

#include <ck_pr.h>
#include <stdatomic.h>

extern atomic_uint sti_visits __attribute__((visibility("hidden")));

void sti_visit_await(void);

/* Before a task resolves or is freed, by the thread that has taken it out. */
static inline void sti_visit_let_pass(void)
{
    ck_pr_fence_atomic_load();
    /* acquire: what the last visitor read it has read. */
    if (__builtin_expect(atomic_load_explicit(&sti_visits, memory_order_acquire) != 0, 0))
        sti_visit_await();
}

#endif
