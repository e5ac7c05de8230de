/* SPDX-License-Identifier: MIT
 *
 * The first example of docs/wall.md: a parser that some inputs crash, behind a wall. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <stint/stint.h>
#include <string.h>

static int count_lines(const void *input, size_t size, stint_reply *reply) /* in a child */
{
    unsigned lines = 0;
    const char *text = input;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\0')
            abort(); /* whoever wrote this did not think of it */
        lines += text[i] == '\n';
    }
    return stint_reply_write(reply, &lines, sizeof lines);
}

static int ask(stint_pool *pool, stint_wall *wall, const void *input, size_t size)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_future *future;
    stint_outcome outcome;
    options.budget.memory = 64 << 20;
    options.budget.run_ns = UINT64_C(2000000000);
    int error = stint_submit_walled(pool, wall, count_lines, input, size, &options, &future);
    if (error == 0)
        error = stint_future_wait(future, &outcome);
    if (error != 0)
        return error;
    if (outcome.status == STINT_OK && outcome.payload_size == sizeof(unsigned))
        printf("%u lines\n", *(unsigned *)outcome.value);
    else
        printf("%s: %s\n", stint_reason_name(outcome.reason), outcome.message);
    free(outcome.value);
    stint_future_release(future);
    return 0;
}

int main(void)
{
    char message[512];
    stint_wall_options options = STINT_WALL_OPTIONS_INIT;
    stint_wall *wall;
    stint_pool *pool;
    options.message = message;
    options.message_size = sizeof message;
    int error = stint_wall_create(&options, &wall); /* before there is any other thread */
    if (error != 0) {
        fprintf(stderr, "%s\n", message);
        return 1;
    }
    error = stint_pool_create(NULL, &pool);
    if (error == 0)
        error = ask(pool, wall, "one\ntwo\n", 8);
    if (error == 0)
        error = ask(pool, wall, "one\0two\n", 8);
    if (error == 0)
        error = ask(pool, wall, "one\n", 4);
    if (error != 0)
        fprintf(stderr, "%s\n", strerror(error));
    stint_pool_destroy(pool);
    stint_wall_destroy(wall);
    return error != 0;
}
