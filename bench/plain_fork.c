/* SPDX-License-Identifier: MIT
 *
 * The work of fork.* without forks. */
#include "plain.h"

#define FORK_FIB 32
#define FORK_QUEENS 12
#define FORK_TREE 16
#include "fork_work.h"

static inline void fork_each(fork_fn *fn, void *items, size_t size, size_t count)
{
    for (size_t i = 0; i < count; i++)
        fn((char *)items + i * size, NULL);
}

static inline bool fork_inside(fork_fn *fn, void *argument)
{
    return fn(argument, NULL) == 0;
}

size_t plain_fib(double *figures)
{
    return fork_measure_fib(figures);
}

size_t plain_queens(double *figures)
{
    return fork_measure_queens(figures);
}

size_t plain_tree(double *figures)
{
    return fork_measure_tree(figures);
}

size_t plain_sort(double *figures)
{
    return fork_measure_sort(figures);
}
