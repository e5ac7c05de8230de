/* SPDX-License-Identifier: MIT
 *
 * Fork and join: how many solutions the problem of n queens has, counted by all processors inside one task. The task
 * has a second; when that is over, all of its subtasks are stopped, wherever they run.
 *
 *     forks [N]    12 unless given; 18 takes longer than a second */
#include <stdio.h>
#include <stdlib.h>
#include <stint/stint.h>

#define QUEENS_MAX 20

struct board {
    unsigned left; /* queens to be placed */
    unsigned free; /* columns, as bits */
    unsigned rising;
    unsigned falling;
};

static int count_solutions(void *arg, void **value)
{
    const struct board *board = arg;
    struct board next[QUEENS_MAX];
    stint_subtask subtasks[QUEENS_MAX];
    size_t count = 0;
    uintptr_t solutions = board->left == 0;

    stint_checkpoint(); /* this code allocates nothing */
    for (unsigned places = board->free & ~(board->rising | board->falling); places != 0; places &= places - 1) {
        unsigned place = places & -places;
        next[count] = (struct board){ board->left - 1, board->free & ~place, (board->rising | place) << 1,
                                      (board->falling | place) >> 1 };
        stint_fork(&subtasks[count], count_solutions, &next[count]);
        count++;
    }
    while (count-- > 0) {
        void *found;
        int error = stint_join(&subtasks[count], &found);
        if (error != 0)
            return error;
        solutions += (uintptr_t)found;
    }
    *value = (void *)solutions;
    return 0;
}

int main(int argc, char **argv)
{
    unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 10) : 12;
    stint_pool *pool;
    stint_future *future;
    stint_outcome outcome;
    if (n < 1 || n > QUEENS_MAX) {
        fprintf(stderr, "forks: N is 1 to %d\n", QUEENS_MAX);
        return 2;
    }
    struct board board = { .left = (unsigned)n, .free = (1U << n) - 1 };
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.wall_ns = 1000000000;
    options.name = "queens";
    if (stint_pool_create(NULL, &pool) != 0 || stint_submit(pool, count_solutions, &board, &options, &future) != 0) {
        fprintf(stderr, "forks: no pool\n");
        return 1;
    }
    stint_future_wait(future, &outcome);
    stint_future_release(future);
    stint_pool_destroy(pool);

    if (outcome.status == STINT_OK)
        printf("%lu queens: %zu solutions\n", n, (size_t)(uintptr_t)outcome.value);
    else
        printf("%lu queens: %s, %s\n", n, stint_status_name(outcome.status), stint_reason_name(outcome.reason));
    return 0;
}
