/* SPDX-License-Identifier: MIT
 *
 * Memory is taken back by itself; for everything else a task pushes a guard, which runs when the block is left and
 * when the task is interrupted. And no task is interrupted between stint_mask and stint_unmask. It prints:
 *
 *     closed
 *     error: memory-limit
 *     both counters: 1 1 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <stint/stint.h>
#include <unistd.h>

static int counters[2]; /* always equal */

static void close_file(void *file)
{
    close(*(int *)file);
    puts("closed");
}

static int work(void *arg, void **value)
{
    (void)arg;
    int file = open("/dev/null", O_WRONLY);
    STINT_GUARD(close_file, &file);

    stint_mask(); /* an interrupt that comes now waits for stint_unmask */
    counters[0]++;
    counters[1]++;
    stint_unmask();

    for (;;) {
        void **block = (void **)malloc(1000);
        if (block == NULL)
            return ENOMEM;
        *block = *value;
        *value = block;
    }
}

int main(void)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    options.budget.memory = 1 << 20;
    if (stint_run(work, NULL, &options, &outcome) != 0)
        return 1;
    printf("%s: %s\n", stint_status_name(outcome.status), stint_reason_name(outcome.reason));
    printf("both counters: %d %d\n", counters[0], counters[1]);
    return 0;
}
