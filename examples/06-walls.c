/* SPDX-License-Identifier: MIT
 *
 * What cannot be stopped in place runs behind a wall: in a process of its own, under the same calls. It prints:
 *
 *     add 40 2: ok, 42
 *     crash: error, crash
 *     loop: error, deadline */
#include <stdio.h>
#include <stdlib.h>
#include <stint/stint.h>
#include <string.h>

static int evaluate(const void *input, size_t size, stint_reply *reply) /* in the child */
{
    int a = 0, b = 0;
    (void)size;
    if (strcmp(input, "crash") == 0)
        abort();
    while (strcmp(input, "loop") == 0)
        continue;
    sscanf(input, "add %d %d", &a, &b);
    a += b;
    return stint_reply_write(reply, &a, sizeof a);
}

static int run(stint_pool *pool, stint_wall *wall, const char *text)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_future *future;
    stint_outcome outcome;
    options.budget.wall_ns = 500000000; /* half a second */
    int error = stint_submit_walled(pool, wall, evaluate, text, strlen(text) + 1, &options, &future);
    if (error != 0 || (error = stint_future_wait(future, &outcome)) != 0)
        return error;
    if (outcome.status == STINT_OK)
        printf("%s: ok, %d\n", text, *(int *)outcome.value);
    else
        printf("%s: %s, %s\n", text, stint_status_name(outcome.status), stint_reason_name(outcome.reason));
    free(outcome.value);
    stint_future_release(future);
    return 0;
}

int main(void)
{
    stint_wall *wall;
    stint_pool *pool;
    if (stint_wall_create(NULL, &wall) != 0 || stint_pool_create(NULL, &pool) != 0) /* the wall first */
        return 1;
    if (run(pool, wall, "add 40 2") != 0 || run(pool, wall, "crash") != 0 || run(pool, wall, "loop") != 0)
        return 1;
    return stint_pool_destroy(pool) + stint_wall_destroy(wall);
}
