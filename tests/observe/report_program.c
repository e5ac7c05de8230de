/* SPDX-License-Identifier: MIT
 *
 * For report_reader.sh: a task that passes its limit while a profile runs, and one while none does. Writes the
 * profiles of their reports to the two given files, and their expected sums to standard output. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <stint/stint.h>

static volatile int sink;

static __attribute__((noinline)) void **hold_block(void **list)
{
    void **block = stint_malloc(500);
    if (block != NULL)
        *block = list;
    sink++;
    return block;
}

static int hold(void *arg, void **value)
{
    void **list = NULL;
    (void)value;
    for (size_t i = 0; i < *(size_t *)arg; i++)
        list = hold_block(list);
    stint_free(hold_block(list));
    return 1;
}

static int write_to(const stint_report *report, const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    return fd < 0 || stint_report_write(report, fd, STINT_REPORT_PPROF) != 0 || close(fd) != 0;
}

/* A task that is stopped by its token is somewhere. */
static int stop(void *arg, void **value)
{
    hold(arg, value);
    stint_token_set(stint_context_value(stint_context_current()));
    stint_checkpoint();
    return 0;
}

static int run(const char *path, size_t blocks)
{
    stint_token *token;
    stint_context *context;
    stint_outcome outcome;
    stint_report *report;
    stint_options options = STINT_OPTIONS_INIT;
    options.report = STINT_REPORT_HEAP;
    options.name = "held";
    if (stint_token_create(NULL, &token) != 0 || stint_context_create(token, NULL, &context) != 0)
        return 1;
    options.token = token;
    options.context = context;
    if (stint_run_reported(stop, &blocks, &options, &outcome, &report) != 0 || report == NULL)
        return 1;
    int failed = write_to(report, path);
    stint_report_release(report);
    stint_context_release(context);
    stint_token_release(token);
    return failed;
}

int main(int argc, char **argv)
{
    stint_profile_options profile = STINT_PROFILE_OPTIONS_INIT;
    profile.interval = 1000;
    profile.seed = 1;
    if (argc != 3 || stint_profile_start(&profile) != 0 || run(argv[1], 20000) != 0 || stint_profile_stop() != 0)
        return 1;
    return run(argv[2], 20000);
}
