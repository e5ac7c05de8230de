/* SPDX-License-Identifier: MIT
 *
 * stint_future_then: callbacks of the application's. Any thread.
 *
 * The resolving thread may be in the midst of a task, which cancels another, or runs one that it waits for. The callback
 * is no part of that task: the thread steps aside from its scopes first. */
#include <errno.h>
#include <stddef.h>
#include <stint/future.h>

#include "alloc/aside.h"
#include "alloc/boundary.h"
#include "alloc/process.h"
#include "follow.h"

struct callback {
    struct sti_follower follower;
    stint_callback *function;
    void *arg;
};

static void call(struct sti_follower *follower)
{
    struct callback callback = *(struct callback *)follower;
    sti_process_free(follower);
    struct sti_aside aside;
    sti_aside_begin(&aside);
    STI_BOUNDARY_CALLBACK("callback", callback.function, callback.follower.task, &callback.follower.task->outcome,
                          callback.arg);
    sti_aside_end(&aside);
}

int stint_future_then(stint_future *future, stint_callback *callback, void *arg)
{
    if (future == NULL || callback == NULL)
        return EINVAL;
    struct callback *made = sti_process_malloc(sizeof *made);
    if (made == NULL)
        return ENOMEM;
    made->follower.run = call;
    made->function = callback;
    made->arg = arg;
    sti_follow(future, &made->follower);
    return 0;
}
