/* SPDX-License-Identifier: MIT
 *
 * A profile says which code allocates, and what of that is still there. Each line is a stack of functions with the
 * bytes that it holds; scripts/stint-flamegraph draws a picture of them. STINT_PROFILE=512k:out.pb.gz in the
 * environment does the same for a program as it is. Among the lines are, with what the system calls before main:
 *
 *     *;main;*;build;index_names *
 *     *;main;*;build;read_names * */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <stint/stint.h>
#include <unistd.h>

static void **list;

__attribute__((noinline)) static int read_names(void)
{
    for (int i = 0; i < 1000; i++) {
        void **name = (void **)malloc(400);
        if (name == NULL)
            return ENOMEM;
        *name = list;
        list = name;
    }
    return 0;
}

__attribute__((noinline)) static int index_names(void)
{
    void **index = calloc(1000, sizeof *index);
    if (index == NULL)
        return ENOMEM;
    *index = list;
    list = index;
    return 0;
}

__attribute__((noinline)) static int build(void *arg, void **value)
{
    (void)arg;
    int error = read_names();
    if (error == 0)
        error = index_names();
    *value = list;
    return error;
}

int main(void)
{
    stint_profile_options options = STINT_PROFILE_OPTIONS_INIT;
    stint_outcome outcome;
    options.interval = 1024; /* bytes from one sample to the next; 512 KiB unless it is set */
    if (stint_profile_start(&options) != 0 || stint_run(build, NULL, NULL, &outcome) != 0 || outcome.error != 0)
        return 1;
    return stint_profile_stop() + stint_profile_write(STDOUT_FILENO, STINT_PROFILE_COLLAPSED_INUSE);
}
