/* SPDX-License-Identifier: MIT
 *
 * host PROGRAM: a host that has threads before anybody asks for a wall, as a server's plugin has, or an interpreter. So
 * it forks nothing: the template is a program of its own (served.c), and its functions are called by name. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <stint/stint.h>
#include <string.h>

static int ask(stint_pool *pool, stint_wall *wall, const char *entry, const char *text)
{
    stint_wall_call call = STINT_WALL_CALL_INIT;
    stint_future *future;
    stint_outcome outcome;
    call.entry = entry;
    call.input = text;
    call.input_size = strlen(text);
    int error = stint_submit_walled_call(pool, wall, &call, NULL, &future);
    if (error == 0)
        error = stint_future_wait(future, &outcome);
    if (error != 0)
        return error;
    if (outcome.status == STINT_OK)
        printf("%s: %.*s\n", entry, (int)outcome.payload_size, (const char *)outcome.value);
    else if (outcome.reason == STINT_REASON_FAILED)
        printf("%s: %s\n", entry, strerror(outcome.error));
    else
        printf("%s: %s\n", entry, stint_reason_name(outcome.reason));
    free(outcome.value);
    stint_future_release(future);
    return 0;
}

int main(int argc, char **argv)
{
    char message[512] = "";
    stint_wall_options options = STINT_WALL_OPTIONS_INIT;
    stint_wall *wall = NULL;
    stint_pool *pool;
    if (argc != 2)
        return 2;
    int error = stint_pool_create(NULL, &pool); /* threads */
    if (error != 0)
        return 1;
    options.program = argv[1];
    options.message = message;
    options.message_size = sizeof message;
    error = stint_wall_create(&options, &wall);
    if (error == 0)
        error = ask(pool, wall, "shout", "hello");
    if (error == 0)
        error = ask(pool, wall, "trip", "x");
    if (error == 0)
        error = ask(pool, wall, "whisper", "hello");
    if (error != 0)
        fprintf(stderr, "%s: %s\n", strerror(error), message);
    stint_pool_destroy(pool);
    stint_wall_destroy(wall);
    return error != 0;
}
