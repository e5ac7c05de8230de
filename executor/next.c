/* SPDX-License-Identifier: MIT
 *
 * stint_future_then_submit: a task that waits for a future. Any thread.
 *
 * It follows that future with a record of its own, which has a reference to the task from when it is given until it is
 * run or taken back; and keeps that future, whose outcome it is given, until it has ended itself. */
#include <errno.h>
#include <stint/delayed.h>

#include "alloc/record.h"
#include "delays.h"

struct next {
    struct sti_delayed delayed;
    struct sti_follower awaited;
    struct sti_follower ended; /* of itself */
    stint_next_fn *fn;
    void *arg;
};

static int run(void *argument, void **value)
{
    const struct next *next = argument;
    return next->fn(&next->awaited.task->outcome, next->arg, value);
}

static void awaited_has_resolved(struct sti_follower *follower)
{
    struct next *next = (struct next *)((char *)follower - offsetof(struct next, awaited));
    sti_delayed_start(&next->delayed);
    sti_task_release(&next->delayed.task);
}

static void forget_awaited(struct sti_delayed *delayed)
{
    if (sti_unfollow(&((struct next *)delayed)->awaited) == 0)
        sti_task_release(&delayed->task);
}

static sti_task *find_awaited(struct sti_delayed *delayed)
{
    sti_follow_lock(&delayed->task);
    sti_task *awaited = ((const struct next *)delayed)->awaited.task;
    if (awaited != NULL)
        sti_task_retain(awaited);
    sti_follow_unlock(&delayed->task);
    return awaited;
}

static void has_ended(struct sti_follower *follower)
{
    struct next *next = (struct next *)((char *)follower - offsetof(struct next, ended));
    sti_task *awaited = next->awaited.task;
    sti_follow_lock(&next->delayed.task);
    next->awaited.task = NULL;
    sti_follow_unlock(&next->delayed.task);
    sti_task_release(awaited);
}

int stint_future_then_submit(stint_future *future, stint_pool *pool, stint_next_fn *fn, void *arg,
                             const stint_options *options, stint_future **next)
{
    struct sti_delayed *delayed;
    if (future == NULL || fn == NULL || next == NULL)
        return EINVAL;
    if (!sti_record_charge(sizeof(struct next), STI_CALLER()))
        return ENOMEM;
    int error = sti_delayed_create(pool, sizeof(struct next), run, NULL, options, &delayed);
    if (error != 0)
        return error;
    struct next *made = (struct next *)delayed;
    delayed->task.arg = made;
    delayed->forget = forget_awaited;
    delayed->awaited = find_awaited;
    made->awaited.task = future;
    made->awaited.run = awaited_has_resolved;
    made->ended.task = &delayed->task;
    made->ended.run = has_ended;
    made->fn = fn;
    made->arg = arg;
    *next = &delayed->task;
    sti_task_retain_unseen(&delayed->task); /* for awaited */
    sti_task_retain_unseen(&delayed->task); /* for here: it may release itself */
    error = sti_delayed_begin(delayed);
    if (error != 0) {
        *next = NULL;
        return error;
    }
    sti_task_retain(future);
    sti_follow(&made->awaited);
    if (!sti_task_is_delayed(&delayed->task))
        forget_awaited(delayed); /* who ended it before there was anything to forget */
    sti_follow(&made->ended);    /* the last, as it gives the awaited future back */
    sti_task_release(&delayed->task);
    return 0;
}
