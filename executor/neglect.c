/* SPDX-License-Identifier: MIT
 *
 * Measuring neglect; see neglect.h. After the task has run, so that tasks which did not wait pay a comparison for it: a
 * worker that was idle while it waited, and has gone to work since, is missed unless it is the one that took it. */
#include "neglect.h"

#include "pool_state.h"
#include "worker.h"

/* Nanoseconds that the task waited and somebody was parked who is parked still, or has been until he took it. */
static uint64_t overlap(uint64_t submitted, uint64_t begun, uint64_t parked_since)
{
    uint64_t since = parked_since > submitted ? parked_since : submitted;
    return parked_since != 0 && begun > since ? begun - since : 0;
}

/* Since it was submitted, that is: a task with an account may have been held back, and where the room is full of those,
 * another has waited for a place. */
static bool could_begin(const stint_pool *pool, const sti_task *task)
{
    return task->options.account == NULL && !task->stood_in_line && !pool->holds_near_limit;
}

void sti_neglect_note(struct sti_worker *worker, const sti_task *task)
{
    const stint_pool *pool = worker->pool;
    uint64_t submitted = task->submitted_ns;
    uint64_t begun = submitted + task->outcome.usage.queued_ns;
    if (!could_begin(pool, task))
        return;
    uint64_t longest = overlap(submitted, begun, worker->idled_since);
    for (unsigned i = 0; i < sti_pool_slots(pool); i++) {
        uint64_t since = atomic_load_explicit(&pool->workers[i].parked_since, memory_order_relaxed);
        uint64_t neglect = overlap(submitted, begun, since);
        longest = neglect > longest ? neglect : longest;
    }
    if (longest >= STINT_NEGLECT_NS)
        sti_counter_add_own(&worker->neglected);
    if (longest > atomic_load_explicit(&worker->longest_neglect, memory_order_relaxed))
        atomic_store_explicit(&worker->longest_neglect, longest, memory_order_relaxed);
}
