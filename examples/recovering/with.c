/* SPDX-License-Identifier: MIT
 *
 * stint_with: a stream that is opened, used and closed. It is closed if and only if it was opened. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <stint/stint.h>

struct job {
    const char *path;
    void *last; /* where the endless work keeps its newest block */
    int opened;
    int closed;
};

static int open_stream(void *argument, void **resource) /* not interrupted */
{
    struct job *job = argument;
    *resource = fopen(job->path, "r");
    if (*resource == NULL)
        return errno;
    job->opened++;
    return 0;
}

static int use_stream(void *argument, void *resource) /* may be interrupted */
{
    struct job *job = argument;
    while (fgetc(resource) != EOF && (job->last = malloc(1000)) != NULL)
        continue;
    return ENOMEM;
}

static void close_stream(void *argument, void *resource) /* not interrupted */
{
    struct job *job = argument;
    fclose(resource);
    job->closed++;
}

static int work(void *argument, void **value)
{
    (void)value;
    return stint_with(open_stream, use_stream, close_stream, argument);
}

static bool run(const char *path, int streams, stint_reason reason)
{
    struct job job = { .path = path };
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = 1 << 20;
    stint_outcome outcome;
    if (stint_run(work, &job, &options, &outcome) != 0)
        return false;
    printf("%s: %s, opened %d, closed %d\n", path, stint_reason_name(outcome.reason), job.opened, job.closed);
    return job.opened == streams && job.closed == streams && outcome.reason == reason;
}

int main(void)
{
    bool stopped = run("/dev/zero", 1, STINT_REASON_ALLOCATION_LIMIT);
    bool missing = run("/nowhere/to/be/found", 0, STINT_REASON_FAILED);
    return !stopped || !missing;
}
