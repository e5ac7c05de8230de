/* SPDX-License-Identifier: MIT
 *
 * Each limit stops a task of its own kind. stint_run runs a task here and now, without a pool. It prints:
 *
 *     1 MiB in all: error, allocation-limit
 *     1 MiB at once: error, memory-limit
 *     50 ms: error, deadline
 *     50 ms of processor time: error, cpu
 *     none: ok, none */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <stint/stint.h>

static int build_and_free(void *rounds, void **value) /* holds 1,000 bytes at once */
{
    (void)value;
    for (long i = 0; i < *(long *)rounds; i++) {
        void *volatile block = malloc(1000);
        if (block == NULL)
            return ENOMEM;
        free(block);
    }
    return 0;
}

static int build_and_keep(void *rounds, void **value)
{
    for (long i = 0; i < *(long *)rounds; i++) {
        void **block = (void **)malloc(1000);
        if (block == NULL)
            return ENOMEM;
        *block = *value;
        *value = block;
    }
    return 0;
}

static void run(const char *what, stint_fn *fn, long rounds, stint_budget budget)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    options.budget = budget;
    if (stint_run(fn, &rounds, &options, &outcome) == 0)
        printf("%s: %s, %s\n", what, stint_status_name(outcome.status), stint_reason_name(outcome.reason));
}

int main(void)
{
    const long endless = 1000000000000;
    const uint64_t ms = 1000000;
    run("1 MiB in all", build_and_free, endless, (stint_budget){ .allocation = 1 << 20 });
    run("1 MiB at once", build_and_keep, endless, (stint_budget){ .memory = 1 << 20 });
    run("50 ms", build_and_free, endless, (stint_budget){ .wall_ns = 50 * ms });
    run("50 ms of processor time", build_and_free, endless, (stint_budget){ .cpu_ns = 50 * ms });
    run("none", build_and_free, 1000, (stint_budget){ 0 });
    return 0;
}
