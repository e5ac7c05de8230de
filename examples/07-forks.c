/* SPDX-License-Identifier: MIT
 *
 * One task uses all workers of its pool: it forks what may be done elsewhere, and joins it. The subtasks share its
 * budget, and a limit stops all of them. They count the solutions of the problem of n queens. It prints:
 *
 *     8 queens: 92, ok
 *     20 queens: 0, error */
#include <stdio.h>
#include <stint/stint.h>

struct board {
    unsigned left, free, rising, falling; /* queens to be placed; columns and diagonals, as bits */
};

static int count_solutions(void *arg, void **value)
{
    const struct board *board = arg;
    struct board next[20];
    stint_subtask subtasks[20];
    size_t count = 0, solutions = board->left == 0;
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
        solutions += (size_t)found;
    }
    *value = (void *)solutions;
    return 0;
}

int main(void)
{
    stint_pool *pool;
    stint_future *future;
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.wall_ns = 500000000; /* half a second */
    if (stint_pool_create(NULL, &pool) != 0)
        return 1;
    for (unsigned n = 8; n <= 20; n += 12) {
        struct board board = { .left = n, .free = (1U << n) - 1 };
        stint_outcome outcome;
        if (stint_submit(pool, count_solutions, &board, &options, &future) != 0 ||
            stint_future_wait(future, &outcome) != 0)
            return 1;
        printf("%u queens: %zu, %s\n", n, (size_t)outcome.value, stint_status_name(outcome.status));
        stint_future_release(future);
    }
    return stint_pool_destroy(pool);
}
