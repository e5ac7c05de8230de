/* SPDX-License-Identifier: MIT
 *
 * A task asleep in read(): its deadline calls a hook, which wakes it with a byte. */
#include <errno.h>
#include <stdio.h>
#include <stint/stint.h>
#include <unistd.h>

struct line {
    int from;
    int to;
};

static void wake(void *argument) /* on a thread of the library's: short, no lock, no allocation */
{
    const struct line *line = argument;
    (void)!write(line->to, "", 1);
}

static int read_line(void *argument, void **value)
{
    (void)value;
    struct line *line = argument;
    stint_hook hook;
    char byte;
    int error = stint_hook_push(&hook, wake, line);
    if (error != 0)
        return error;
    ssize_t count = read(line->from, &byte, 1); /* nobody else writes */
    stint_checkpoint();                         /* the interrupt comes here, and pops the hook */
    stint_hook_pop(&hook);
    return count == 1 ? 0 : EIO;
}

int main(void)
{
    int ends[2];
    if (pipe(ends) != 0)
        return 1;
    struct line line = { ends[0], ends[1] };
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.wall_ns = 50 * UINT64_C(1000000);
    stint_outcome outcome;
    if (stint_run(read_line, &line, &options, &outcome) != 0)
        return 1;
    printf("%s: %s\n", stint_status_name(outcome.status), stint_reason_name(outcome.reason));
    close(ends[0]);
    close(ends[1]);
    return outcome.reason != STINT_REASON_DEADLINE;
}
