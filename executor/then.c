/* SPDX-License-Identifier: MIT
 *
 * stint_future_then, stint_future_follow: callbacks of the application's. Any thread.
 *
 * The resolving thread may be in the midst of a task, which cancels another, or runs one that it waits for. The callback
 * is no part of that task: the thread steps aside from its scopes first. */
#include <errno.h>
#include <stddef.h>
#include <stint/future.h>

#include "alloc/aside.h"
#include "alloc/boundary.h"
#include "alloc/process.h"
#include "alloc/record.h"
#include "follow.h"

/* What stint_follower is, to the library. */
struct callback {
    struct sti_follower follower;
    stint_callback *function;
    void *arg;
};
_Static_assert(sizeof(struct callback) == sizeof(stint_follower), "the public record has room for it");

static void call_aside(const struct callback *callback)
{
    struct sti_aside aside;
    sti_aside_begin(&aside);
    STI_BOUNDARY_CALLBACK("callback", callback->function, callback->follower.task, &callback->follower.task->outcome,
                          callback->arg);
    sti_aside_end(&aside);
}

/* From its beginning on the record is the application's. */
static void call(struct sti_follower *follower)
{
    const struct callback callback = *(struct callback *)follower;
    call_aside(&callback);
}

static void call_and_free(struct sti_follower *follower)
{
    const struct callback callback = *(struct callback *)follower;
    sti_process_free(follower);
    call_aside(&callback);
}

static void follow(stint_future *future, struct callback *record, void (*run)(struct sti_follower *follower),
                   stint_callback *function, void *arg)
{
    record->follower.task = future;
    record->follower.run = run;
    record->function = function;
    record->arg = arg;
    sti_follow(&record->follower);
}

int stint_future_then(stint_future *future, stint_callback *callback, void *arg)
{
    if (future == NULL || callback == NULL)
        return EINVAL;
    if (!sti_record_charge(sizeof(struct callback), STI_CALLER()))
        return ENOMEM;
    struct callback *made = sti_process_malloc(sizeof *made);
    if (made == NULL)
        return ENOMEM;
    follow(future, made, call_and_free, callback, arg);
    return 0;
}

int stint_future_follow(stint_future *future, stint_follower *follower, stint_callback *callback, void *arg)
{
    if (future == NULL || follower == NULL || callback == NULL)
        return EINVAL;
    follow(future, (struct callback *)follower, call, callback, arg);
    return 0;
}

int stint_future_unfollow(stint_future *future, stint_follower *follower)
{
    if (future == NULL || follower == NULL)
        return EINVAL;
    struct sti_follower *record = &((struct callback *)follower)->follower;
    return record->task == future ? sti_unfollow(record) : EINVAL;
}
