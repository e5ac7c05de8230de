/* SPDX-License-Identifier: MIT
 *
 * Waiting until a future resolves; see docs/executor.md. Any thread.
 *
 * A task that waits for another of its pool's runs it, if nobody else has begun to: on top of its own frames, in a scope
 * of its own. Nothing else is ever run there: what is below has to wait for it, and could be what it waits for. When half
 * the stack is in use, it is left to others: the waiter sleeps, and a spare takes its place (spare.h). When no spare is left
 * either, and every thread sleeps, see rescue.h. */
#include "wait.h"

#include <errno.h>
#include <stddef.h>

#include "admission.h"
#include "alloc/clock.h"
#include "compound.h"
#include "event.h"
#include "follow.h"
#include "rescue.h"
#include "rest.h"
#include "spare.h"
#include "worker.h"

/* How often a waiter looks before it sleeps: some 5 microseconds in all, about what being woken costs. */
#define WAIT_ROUNDS 20

/* Compounds within compounds are looked into so deep: beyond that the waiter only sleeps. */
#define DEEPEST_LOOK 64

/* No task is begun with less stack than this, whatever happens. */
#define LEAST_ROOM ((size_t)64 << 10)

#define RETRY_NS UINT64_C(1000000)

static bool has_room(const struct sti_worker *worker)
{
    size_t reserve = worker->stack_size / 8;
    return sti_worker_has_stack(worker, reserve > LEAST_ROOM ? reserve : LEAST_ROOM);
}

/* So that a task has half a stack at least. */
static bool has_much_room(const struct sti_worker *worker)
{
    return sti_worker_has_stack(worker, worker->stack_size / 2);
}

/* Whether it cannot resolve before a task on this thread's stack has ended. */
static bool is_below(const struct sti_worker *worker, sti_task *task, unsigned depth)
{
    if (!sti_task_is_compound(task))
        return !sti_task_is_queued(task) && sti_worker_is_inside(worker, task);
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

/* On top of what is on the stack already. */
static void run_here(struct sti_worker *worker, sti_task *task)
{
    unsigned depth = worker->asleep;
    if (depth > 0)
        sti_spare_interrupt_sleep(worker);
    sti_worker_run_awaited(worker, task);
    if (depth > 0)
        sti_spare_resume_sleep(worker, depth);
}

/* Run what nobody has begun yet, until the awaited task has resolved. Not one of any: if another decides, the waiter must
 * go on, and what runs on top of it could be waiting for that. */
static void run_unbegun(struct sti_worker *worker, const sti_task *awaited, sti_task *task, unsigned depth)
{
    if (!sti_task_is_compound(task)) {
        if (task->pool == worker->pool && has_much_room(worker) && sti_admission_claim_awaited(task))
            run_here(worker, task);
        return;
    }
    const struct sti_compound *compound = sti_compound_of(task);
    if (depth == DEEPEST_LOOK || (compound->any && compound->count > 1))
        return;
    for (size_t i = 0; i < compound->count && !sti_task_is_resolved(awaited); i++)
        run_unbegun(worker, awaited, compound->members[i].follower.task, depth + 1);
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

static int sleep_until(sti_task *task, uint64_t deadline_ns)
{
    while (!sti_follow_sleep(task, sti_follow_bell(task), deadline_ns)) {
        if (deadline_ns != STI_NEVER && sti_clock_now() >= deadline_ns)
            return ETIMEDOUT;
    }
    return 0;
}

/* Until the task has resolved or there is something else to do. */
static void sleep_as(struct sti_sleeper *sleeper)
{
    uint32_t value;
    sti_spare_fall_asleep(sleeper->worker, sleeper);
    do {
        value = sti_follow_bell(sleeper->task);
    } while (!sti_sleeper_is_told(sleeper) && !sti_follow_sleep(sleeper->task, value, STI_NEVER));
    sti_spare_awake(sleeper->worker, sleeper);
}

static int sleep_without_place(struct sti_worker *worker, sti_task *task, uint64_t deadline_ns)
{
    sti_spare_fall_asleep(worker, NULL);
    int error = sleep_until(task, deadline_ns);
    sti_spare_awake(worker, NULL);
    return error;
}

/* If its account lets nobody begin it now, nobody may be there to notice when it does: try again shortly. */
static void run_errand(struct sti_worker *worker, sti_task *awaited, sti_task *errand)
{
    if (!sti_task_is_resolved(awaited)) {
        if (sti_admission_claim_awaited(errand))
            run_here(worker, errand);
        else
            sleep_without_place(worker, awaited, sti_deadline_after(RETRY_NS));
    }
    sti_task_release(errand);
}

static int wait_in_worker(struct sti_worker *worker, sti_task *task)
{
    for (;;) {
        run_unbegun(worker, task, task, 0);
        if (rest_until_resolved(task))
            return 0;
        struct sti_sleeper sleeper = {
            .worker = worker,
            .task = task,
            .has_room = has_room(worker),
            .has_much_room = has_much_room(worker),
        };
        sleep_as(&sleeper);
        if (sleeper.errand != NULL) {
            run_errand(worker, task, sleeper.errand);
        } else if (sleeper.hopeless && !sti_task_is_resolved(task)) {
            return EAGAIN;
        }
    }
}

static bool is_deadlock(const struct sti_worker *worker, sti_task *task)
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
    if (is_deadlock(worker, task))
        return EDEADLK;
    if (worker != NULL)
        return wait_in_worker(worker, task);
    return rest_until_resolved(task) ? 0 : sleep_until(task, STI_NEVER);
}

int sti_wait_until(sti_task *task, uint64_t deadline_ns)
{
    if (sti_task_is_resolved(task))
        return 0;
    if (sti_task_is_left_behind(task))
        return EOWNERDEAD;
    struct sti_worker *worker = sti_worker_current();
    if (is_deadlock(worker, task))
        return EDEADLK;
    if (rest_until_resolved(task))
        return 0;
    if (worker == NULL)
        return sleep_until(task, deadline_ns);
    return sleep_without_place(worker, task, deadline_ns);
}
