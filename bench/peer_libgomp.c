/* SPDX-License-Identifier: MIT
 *
 * The peer libgomp, gcc's OpenMP: stint-bench-libgomp. */
#define FORK_FIB 25
#define FORK_QUEENS 10
#define FORK_TREE 12
#include "fork_work.h"

static int fork_workers;

static inline void fork_each(fork_fn *fn, void *items, size_t size, size_t count)
{
    char *item = (char *)items;
    for (size_t i = 0; i + 1 < count; i++) {
#pragma omp task firstprivate(fn, item, i, size)
        fn(item + i * size, NULL);
    }
    fn(item + (count - 1) * size, NULL);
#pragma omp taskwait
}

static inline bool fork_inside(fork_fn *fn, void *argument)
{
    int error = 0;
#pragma omp parallel num_threads(fork_workers)
#pragma omp single
    error = fn(argument, NULL);
    return error == 0;
}

static void prepare(unsigned workers)
{
    fork_workers = (int)workers;
    fork_prepare_clock(workers);
}

int main(int argc, char **argv)
{
    static const struct bench_work works[] = {
        { "fork.fib", "libgomp", prepare, fork_measure_fib },
        { "fork.queens", "libgomp", prepare, fork_measure_queens },
        { "fork.uts", "libgomp", prepare, fork_measure_tree },
        { "fork.sort", "libgomp", prepare, fork_measure_sort },
        { "fork.fib.2", "libgomp", prepare, fork_measure_fib },
        { "fork.queens.2", "libgomp", prepare, fork_measure_queens },
        { "fork.uts.2", "libgomp", prepare, fork_measure_tree },
        { "fork.sort.2", "libgomp", prepare, fork_measure_sort },
        { NULL, NULL, NULL, NULL },
    };
    return bench_serve_main(works, argc, argv);
}
