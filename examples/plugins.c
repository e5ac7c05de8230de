/* SPDX-License-Identifier: MIT
 *
 * plugins [-g FOLDER] MODULE...: a host of native plugins. Each is a shared module of whoever it may be, each runs
 * behind a wall, and whatever it does, the host lives. It prints a line for each: what came of it. Plugins start no
 * threads and no processes, unless -g names a folder of control groups in which the host may make some: then eight,
 * which end with the plugin.
 *
 * One wall a plugin. The module is loaded in the wall's setup, so in the template, and never in the host: as its
 * constructors may do anything, too, and the host has no use for its code. What is submitted is run_plugin, a function
 * of the host's own; in the child, which is a fork of the template, the variable `plugin` has what setup has put there.
 *
 * One wall for all of them would be two processes for all in place of two for each, and one pool of children for all;
 * run_plugin would look the plugin up by a name in its input. But a plugin that crashes as it is loaded would take all
 * others with it, and those that are loaded could spoil each other before the first task. So that is for plugins that
 * are trusted to load.
 *
 * All walls are made first, as the host has one thread then; pool and tasks come afterwards. */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <stint/stint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "guests/plugin.h"

#define ANSWER 100
#define MESSAGE 512
#define MEMORY ((size_t)64 << 20)
#define TWO_SECONDS UINT64_C(2000000000)

static const char text[] = "the answer is 42, and 58 more make 100";

struct guest {
    const char *name;
    stint_wall *wall; /* NULL: it could not be loaded */
    stint_future *future;
};

/* --- In the template. --- */

static int (*plugin)(const char *, size_t, char *, size_t);

static int load(void *path)
{
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *function = module != NULL ? dlsym(module, "plugin_run") : NULL;
    if (function == NULL)
        return ENOEXEC;
    memcpy(&plugin, &function, sizeof plugin);
    return 0;
}

/* --- In a child, which has no other task: whatever the plugin has spoilt ends with it. --- */

static int run_plugin(const void *input, size_t size, stint_reply *reply)
{
    char answer[ANSWER] = "";
    int error = plugin(input, size, answer, sizeof answer);
    return error != 0 ? error : stint_reply_write(reply, answer, strnlen(answer, sizeof answer));
}

/* --- In the host. --- */

static void take_in(struct guest *guest, char *path, const char *groups)
{
    char message[MESSAGE];
    stint_wall_options options = STINT_WALL_OPTIONS_INIT;
    guest->name = basename(path);
    options.name = guest->name;
    options.setup = load;
    options.setup_arg = path;
    options.children = 1;
    options.cgroup = groups;
    options.processes = groups != NULL ? 8 : 0;
    options.message = message;
    options.message_size = sizeof message;
    if (stint_wall_create(&options, &guest->wall) != 0)
        printf("%s: cannot be loaded (%s)\n", guest->name, message);
}

static int ask(stint_pool *pool, struct guest *guest)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.name = guest->name;
    options.budget.memory = MEMORY;
    options.budget.run_ns = TWO_SECONDS;
    return stint_submit_walled(pool, guest->wall, run_plugin, text, sizeof text - 1, &options, &guest->future);
}

static void say(const struct guest *guest, const stint_outcome *outcome)
{
    const char *reason = stint_reason_name(outcome->reason);
    if (outcome->status == STINT_OK)
        printf("%s: ok (%.*s)\n", guest->name, (int)outcome->payload_size, (const char *)outcome->value);
    else if (outcome->reason == STINT_REASON_FAILED)
        printf("%s: %s (%s)\n", guest->name, reason, strerror(outcome->error));
    else if (outcome->message[0] != '\0')
        printf("%s: %s (%s)\n", guest->name, reason, outcome->message);
    else
        printf("%s: %s\n", guest->name, reason);
}

static int run_all(stint_pool *pool, struct guest *guests, int count)
{
    int error = 0;
    for (int i = 0; i < count && error == 0; i++) {
        if (guests[i].wall != NULL)
            error = ask(pool, &guests[i]);
    }
    for (int i = 0; i < count && error == 0; i++) {
        stint_outcome outcome;
        if (guests[i].wall == NULL)
            continue;
        error = stint_future_wait(guests[i].future, &outcome);
        if (error == 0)
            say(&guests[i], &outcome);
        free(outcome.value);
        stint_future_release(guests[i].future);
    }
    return error;
}

/* Whoever has lost its parent below this process is a child of it. */
static bool is_anything_left(void)
{
    pid_t pid;
    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
        ;
    return pid == 0;
}

int main(int argc, char **argv)
{
    bool has_groups = argc > 2 && strcmp(argv[1], "-g") == 0;
    char **modules = argv + (has_groups ? 3 : 1);
    int count = (int)(argv + argc - modules);
    stint_pool *pool;
    struct guest *guests = calloc((size_t)argc, sizeof *guests);
    if (guests == NULL || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
        return 1;
    for (int i = 0; i < count; i++)
        take_in(&guests[i], modules[i], has_groups ? argv[2] : NULL);
    int error = stint_pool_create(NULL, &pool);
    if (error == 0)
        error = run_all(pool, guests, count);
    for (int i = 0; i < count && error == 0; i++)
        error = stint_wall_destroy(guests[i].wall);
    if (error == 0)
        error = stint_pool_destroy(pool);
    free(guests);
    if (error != 0) {
        fprintf(stderr, "plugins: %s\n", strerror(error));
        return 1;
    }
    bool is_left = is_anything_left();
    printf("%d plugins, and the host lives; %s left running\n", count, is_left ? "something is" : "nothing is");
    return is_left;
}
