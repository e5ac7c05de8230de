/* SPDX-License-Identifier: MIT
 *
 * A task that is stopped while it has a temporary file: two guards close and remove it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <stint/stint.h>
#include <unistd.h>

struct scratch {
    int descriptor;
    char name[sizeof P_tmpdir "/stint-XXXXXX"];
};

static void close_file(void *argument)
{
    const struct scratch *scratch = argument;
    printf("close: %s\n", close(scratch->descriptor) == 0 ? "done" : "failed");
}

static void remove_file(void *argument)
{
    const struct scratch *scratch = argument;
    printf("remove: %s\n", unlink(scratch->name) == 0 ? "done" : "failed");
}

static int work(void *argument, void **value)
{
    struct scratch *scratch = argument;
    scratch->descriptor = mkstemp(scratch->name); /* between here and the guards nothing allocates */
    if (scratch->descriptor < 0)
        return errno;
    STINT_GUARD(remove_file, scratch);
    STINT_GUARD(close_file, scratch); /* the newest runs first */
    for (void **node; (node = malloc(1000)) != NULL; *value = node)
        *node = *value;
    return ENOMEM;
}

int main(void)
{
    struct scratch scratch = { .name = P_tmpdir "/stint-XXXXXX" };
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = 1 << 20;
    stint_outcome outcome;
    if (stint_run(work, &scratch, &options, &outcome) != 0)
        return 1;
    printf("%s: %s\n", stint_status_name(outcome.status), stint_reason_name(outcome.reason));
    return access(scratch.name, F_OK) == 0 || outcome.reason != STINT_REASON_ALLOCATION_LIMIT;
}
