/* SPDX-License-Identifier: MIT
 *
 * Visits to all tasks of a pool, by another thread than theirs. Any thread. */
#ifndef STI_EXECUTOR_POOL_VISIT_H
#define STI_EXECUTOR_POOL_VISIT_H

#include <ck_pr.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stint/visit.h>

struct sti_worker;

/* --- Visiting: another thread looks at tasks that it has no reference to, in queues and on workers. A thread that ends
 * or frees a task pays one load for that.
 *
 *   visitor   visits = 1 (an exchange); a barrier; looks at queues, deques, running ...; visits = 0, wakes
 *   taker     takes an entry out of a queue, or the task that a worker runs, so that it is not to be seen any more; a
 *             barrier; reads visits; while it is 1, waits; resolves or frees the task
 *
 * Both write, pass a barrier and read: so either the visitor does not see the task any more, or the taker sees the
 * visitor. A task that the visitor has seen and that had not resolved then does not resolve until it is done, so its
 * options, its name and its account are there; one that has is not freed. The barrier is that of the claim of a queue's
 * entry, which is tried in any case, and the exchange with which a worker leaves a task. A worker's frames lie on its
 * stack: a thread that leaves one, a stolen subtask's too, waits in the same way before it is gone.
 *
 * One visitor at a time. The visitor calls no user code, and waits for nothing but a lock of the pool's under which
 * nothing resolves. */

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

/* --- A task as it is shown: a copy, which needs the task no more. --- */

struct sti_seen {
    stint_task_view view;
    stint_account *account; /* retained: the caller's to release */
    char name[STINT_NAME_SIZE];
};

/* Of a task of the pool's that cannot resolve now. worker: that runs it; NULL: it waits. started: when its function
 * began, if nothing runs on top of it; otherwise 0. */
void sti_seen_take_down(struct sti_seen *seen, const stint_pool *pool, const struct stint_future *task,
                        struct sti_worker *worker, uint64_t started, uint64_t now);

/* Good until the copy is moved. */
const stint_task_view *sti_seen_view(struct sti_seen *seen);

#endif
