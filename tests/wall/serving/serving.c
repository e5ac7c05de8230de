/* SPDX-License-Identifier: MIT
 *
 * A wall's template that is a program of its own. Its first argument says that it serves, or which mistake it makes
 * before. */
#include "../attacks.h"

#include <stdlib.h>

static int echo(const void *input, size_t size, stint_reply *reply)
{
    return stint_reply_write(reply, input, size);
}

static int spin(const void *input, size_t size, stint_reply *reply)
{
    volatile bool for_ever = true;
    while (for_ever)
        ;
    return echo(input, size, reply);
}

static int crash(const void *input, size_t size, stint_reply *reply)
{
    abort();
    return echo(input, size, reply);
}

static int allocate_without_end(void *arg, void **value)
{
    (void)arg;
    while ((*value = malloc(1000)) != NULL)
        memset(*value, 1, 1000);
    return ENOMEM;
}

/* A task in a task, which loads nothing for it, not even the unwinder. */
static int run_inside(const void *input, size_t size, stint_reply *reply)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    (void)input;
    (void)size;
    options.budget.memory = 1 << 20;
    options.on_interrupt = STINT_UNWIND;
    int error = stint_run(allocate_without_end, NULL, &options, &outcome);
    const char *end = error != 0 ? strerrorname_np(error) : stint_reason_name(outcome.reason);
    return stint_reply_write(reply, end, strlen(end));
}

static const stint_wall_entry entries[] = {
    { "echo", echo },
    { "spin", spin },
    { "crash", crash },
    { "run_inside", run_inside },
    { "bomb_with_forks", bomb_with_forks },
    { "bomb_with_threads", bomb_with_threads },
    { "flood_with_descriptors", flood_with_descriptors },
    { "map_everything", map_everything },
    { "signal_others", signal_others },
    { "kill_parent", kill_parent },
};

static int serve(void)
{
    return stint_wall_serve(entries, sizeof entries / sizeof *entries);
}

static int serve_as(const char *name, stint_wall_fn *fn)
{
    const stint_wall_entry entry = { name, fn };
    return stint_wall_serve(&entry, 1);
}

/* Its exit status is 10 where it was refused as it should be. */
int main(int count, char **arguments)
{
    const char *way = count > 1 ? arguments[1] : "";
    char long_name[65];
    pthread_t thread;
    memset(long_name, 'a', 64);
    long_name[64] = '\0';
    if (strcmp(way, "serve") == 0)
        return serve();
    if (strcmp(way, "never") == 0) {
        for (;;)
            pause();
    }
    if (strcmp(way, "crash") == 0)
        abort();
    if (strcmp(way, "threads") == 0) {
        pthread_create(&thread, NULL, be_a_thread, NULL);
        return serve() == EBUSY ? 10 : 11;
    }
    if (strcmp(way, "names") == 0)
        return serve_as("", echo) == EINVAL && serve_as(long_name, echo) == EINVAL && serve_as(NULL, echo) == EINVAL &&
                       serve_as("echo", NULL) == EINVAL && stint_wall_serve(NULL, 1) == EINVAL
                   ? 10
                   : 11;
    return serve() == ENOTCONN ? 10 : 11; /* it was not started as a template */
}
