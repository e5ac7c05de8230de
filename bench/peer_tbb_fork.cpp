/* SPDX-License-Identifier: MIT
 *
 * The work of fork.* by oneTBB's task_group; a part of stint-bench-tbb. */
#include "peer_tbb_fork.h"

#include <memory>

#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#define FORK_FIB 27
#define FORK_QUEENS 10
#define FORK_TREE 13
#include "fork_work.h"

static std::unique_ptr<tbb::global_control> control;
static std::unique_ptr<tbb::task_arena> arena;

static inline void fork_each(fork_fn *fn, void *items, size_t size, size_t count)
{
    tbb::task_group group;
    char *item = static_cast<char *>(items);
    for (size_t i = 0; i + 1 < count; i++)
        group.run([=] { fn(item + i * size, nullptr); });
    fn(item + (count - 1) * size, nullptr);
    group.wait();
}

static inline bool fork_inside(fork_fn *fn, void *argument)
{
    int error = 0;
    arena->execute([&] { error = fn(argument, nullptr); });
    return error == 0;
}

/* The thread that measures is one of the workers. */
void tbb_fork_prepare(unsigned workers)
{
    fork_prepare_clock(workers);
    control = std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism, workers);
    arena = std::make_unique<tbb::task_arena>(static_cast<int>(workers));
    arena->initialize();
}

size_t tbb_fork_fib(double *figures)
{
    return fork_measure_fib(figures);
}

size_t tbb_fork_queens(double *figures)
{
    return fork_measure_queens(figures);
}

size_t tbb_fork_tree(double *figures)
{
    return fork_measure_tree(figures);
}

size_t tbb_fork_sort(double *figures)
{
    return fork_measure_sort(figures);
}
