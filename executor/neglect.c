/* SPDX-License-Identifier: MIT
 *
 * Measuring neglect; see neglect.h. After the task has run, so that tasks which did not wait pay a comparison for it: a
 * worker that was idle while it waited, and has gone to work since, is missed unless it is the one that took it. Idle is who
 * is parked while nobody has been called: the load of the machine is not measured. */
#include "neglect.h"

#include "pool_state.h"
#include "worker.h"

/* Nanoseconds from when the task was submitted, or somebody was parked, until this. */
static uint64_t overlap(uint64_t submitted, uint64_t end, uint64_t parked_since)
{
    uint64_t since = parked_since > submitted ? parked_since : submitted;
    return parked_since != 0 && end > since ? end - since : 0;
}

/* From when on somebody was on the way who looks for all that waits: what is left then is how soon he gets a processor, and
 * that is not the pool's doing. */
static uint64_t answered(const struct sti_worker *worker, uint64_t parked_since, uint64_t submitted)
{
    uint64_t called = atomic_load_explicit(&worker->called_ns, memory_order_relaxed);
    if (called >= submitted)
        return called;
    return parked_since != 0 && called >= parked_since ? submitted : UINT64_MAX;
}

static uint64_t when_parked(const struct sti_worker *worker)
{
    return atomic_load_explicit(&worker->parked_since, memory_order_relaxed);
}

static uint64_t first_answer(const struct sti_worker *taker, uint64_t submitted)
{
    const stint_pool *pool = taker->pool;
    uint64_t first = answered(taker, taker->idled_since, submitted);
    for (unsigned i = 0; i < sti_pool_slots(pool); i++) {
        uint64_t answer = answered(&pool->workers[i], when_parked(&pool->workers[i]), submitted);
        first = answer < first ? answer : first;
    }
    return first;
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
    uint64_t answer = first_answer(worker, submitted);
    uint64_t end = answer < begun ? answer : begun;
    uint64_t longest = overlap(submitted, end, worker->idled_since);
    for (unsigned i = 0; i < sti_pool_slots(pool); i++) {
        uint64_t neglect = overlap(submitted, end, when_parked(&pool->workers[i]));
        longest = neglect > longest ? neglect : longest;
    }
    if (longest >= STINT_NEGLECT_NS)
        sti_counter_add_own(&worker->neglected);
    if (longest > atomic_load_explicit(&worker->longest_neglect, memory_order_relaxed))
        atomic_store_explicit(&worker->longest_neglect, longest, memory_order_relaxed);
}
