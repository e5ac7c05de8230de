/* SPDX-License-Identifier: MIT
 *
 * Waiting until a future resolves; see docs/executor.md. Any thread.
 *
 * A task that waits for another of its pool's runs it, if nobody else has begun to: on top of its own frames, in a scope
 * of its own. Nothing else is ever run there: what is below has to wait for it, and could be what it waits for. */
#include "wait.h"

#include <errno.h>
#include <stddef.h>

#include "admission.h"
#include "alloc/clock.h"
#include "compound.h"
#include "event.h"
#include "follow.h"
#include "rest.h"
#include "worker.h"

/* How often a waiter looks before it sleeps: some 5 microseconds in all, about what being woken costs. */
#define WAIT_ROUNDS 20

/* Compounds within compounds are looked into so deep: beyond that the waiter only sleeps. */
#define DEEPEST_LOOK 64

/* Whether it cannot resolve before a task on this thread's stack has ended. */
static bool is_below(const struct sti_worker *worker, sti_task *task, unsigned depth)
{
    if (!sti_task_is_compound(task))
        return sti_worker_is_inside(worker, task);
    const struct sti_compound *compound = sti_compound_of(task);
    if (depth == DEEPEST_LOOK || compound->count == 0)
        return false;
    /* All of them wait for the worst of its members, any for the best. */
    for (size_t i = 0; i < compound->count; i++) {
        if (is_below(worker, compound->members[i].follower.task, depth + 1) != compound->any)
            return !compound->any;
    }
    return compound->any;
}

/* Run what nobody has begun yet, until the awaited task has resolved. */
static void run_awaited(struct sti_worker *worker, const sti_task *awaited, sti_task *task, unsigned depth)
{
    if (!sti_task_is_compound(task)) {
        if (task->pool == worker->pool && sti_admission_claim_awaited(task))
            sti_worker_run_awaited(worker, task);
        return;
    }
    const struct sti_compound *compound = sti_compound_of(task);
    for (size_t i = 0; i < compound->count && depth < DEEPEST_LOOK && !sti_task_is_resolved(awaited); i++)
        run_awaited(worker, awaited, compound->members[i].follower.task, depth + 1);
}

static bool rest_until_resolved(const sti_task *task)
{
    for (unsigned round = 0; round < WAIT_ROUNDS; round++) {
        if (sti_task_is_resolved(task))
            return true;
        sti_rest(round);
    }
    return false;
}

static int sleep_until_resolved(sti_task *task, uint64_t deadline_ns)
{
    if (rest_until_resolved(task))
        return 0;
    while (!sti_follow_sleep(task, deadline_ns)) {
        if (deadline_ns != STI_NEVER && sti_clock_now() >= deadline_ns)
            return ETIMEDOUT;
    }
    return 0;
}

static bool is_hopeless(const struct sti_worker *worker, sti_task *task)
{
    return sti_is_following() || (worker != NULL && is_below(worker, task, 0));
}

int sti_wait(sti_task *task)
{
    if (sti_task_is_resolved(task))
        return 0;
    if (sti_task_is_left_behind(task))
        return EOWNERDEAD;
    struct sti_worker *worker = sti_worker_current();
    if (is_hopeless(worker, task))
        return EDEADLK;
    if (worker != NULL)
        run_awaited(worker, task, task, 0);
    return sleep_until_resolved(task, STI_NEVER);
}

int sti_wait_until(sti_task *task, uint64_t deadline_ns)
{
    if (sti_task_is_resolved(task))
        return 0;
    if (sti_task_is_left_behind(task))
        return EOWNERDEAD;
    if (is_hopeless(sti_worker_current(), task))
        return EDEADLK;
    return sleep_until_resolved(task, deadline_ns);
}
