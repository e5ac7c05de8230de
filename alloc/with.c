/* SPDX-License-Identifier: MIT
 *
 * stint_with: a resource with its guard and its masks in the right places. Any thread.
 *
 * The mask is a guard, too, for a longjmp out of acquire. Both guards are popped by cleanup attributes, so that a C++ exception
 * out of acquire or use, or an end of the thread, does the same as a return. */
#include <errno.h>
#include <stddef.h>
#include <stint/guard.h>
#include <stint/interrupt.h>

struct held {
    stint_release_fn *release;
    void *arg;
    void *resource;
};

static void release_held(void *held_resource)
{
    const struct held *held = held_resource;
    held->release(held->arg, held->resource);
}

static void end_mask(void *unused)
{
    (void)unused;
    stint_unmask();
}

/* The guard is pushed before the mask ends. */
static int acquire_guarded(stint_acquire_fn *acquire, struct held *held, stint_guard *guard)
{
    stint_mask();
    __attribute__((cleanup(stint_guard_end_))) stint_guard masked = { .release = NULL };
    stint_guard_push(&masked, end_mask, NULL);
    int error = acquire(held->arg, &held->resource);
    if (error == 0)
        stint_guard_push(guard, release_held, held);
    return error;
}

int stint_with(stint_acquire_fn *acquire, stint_use_fn *use, stint_release_fn *release, void *arg)
{
    if (acquire == NULL || use == NULL || release == NULL)
        return EINVAL;
    struct held held = { .release = release, .arg = arg };
    __attribute__((cleanup(stint_guard_end_))) stint_guard guard = { .release = NULL };
    int error = acquire_guarded(acquire, &held, &guard);
    return error != 0 ? error : use(arg, held.resource);
}
