/* SPDX-License-Identifier: MIT
 *
 * A token cancels all tasks that have it, as when a client has gone; stint_future_cancel cancels one. Code that
 * allocates nothing asks now and then, by stint_checkpoint, whether it is to stop. It prints:
 *
 *     one: cancelled
 *     two: cancelled
 *     other: ok */
#include <stdio.h>
#include <stint/stint.h>

static int count(void *arg, void **value)
{
    (void)value;
    for (volatile long i = 0; i < *(long *)arg; i++)
        stint_checkpoint();
    return 0;
}

static void show(const char *name, stint_future *future)
{
    stint_outcome outcome;
    if (stint_future_wait(future, &outcome) == 0)
        printf("%s: %s\n", name, stint_status_name(outcome.status));
    stint_future_release(future);
}

int main(void)
{
    long endless = 1000000000000, short_time = 1000;
    stint_options options = STINT_OPTIONS_INIT;
    stint_future *one, *two, *other;
    stint_token *client;
    stint_pool *pool;
    if (stint_pool_create(NULL, &pool) != 0 || stint_token_create(NULL, &client) != 0)
        return 1;
    options.token = client;
    if (stint_submit(pool, count, &endless, &options, &one) != 0 ||
        stint_submit(pool, count, &endless, &options, &two) != 0 ||
        stint_submit(pool, count, &short_time, NULL, &other) != 0)
        return 1;
    stint_token_set(client);
    show("one", one);
    show("two", two);
    show("other", other);
    stint_token_release(client);
    return stint_pool_destroy(pool);
}
