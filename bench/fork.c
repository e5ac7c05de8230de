/* SPDX-License-Identifier: MIT
 *
 * fork.*: fork and join inside one bounded task, beside the same work without forks and by other systems. */
#include <stint/stint.h>

#include "bench.h"
#include "task.h"

#define FORK_FIB 32
#define FORK_QUEENS 12
#define FORK_TREE 16
#include "fork_work.h"

static inline void fork_each(fork_fn *fn, void *items, size_t size, size_t count)
{
    stint_subtask subtasks[FORK_MAX];
    char *item = items;
    for (size_t i = 0; i + 1 < count; i++)
        stint_fork(&subtasks[i], fn, item + i * size);
    fn(item + (count - 1) * size, NULL);
    for (size_t i = count - 1; i-- > 0;)
        stint_join(&subtasks[i], NULL);
}

/* In a task with limits that it does not reach. */
static inline bool fork_inside(fork_fn *fn, void *argument)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    options.budget = (stint_budget){ .allocation = (size_t)1 << 40, .memory = (size_t)1 << 30 };
    stint_future *future = bench_submit(fn, argument, &options);
    stint_future_wait(future, &outcome);
    stint_future_release(future);
    return outcome.status == STINT_OK;
}

static void prepare(unsigned workers)
{
    fork_prepare_clock(workers);
    bench_prepare_pool(workers);
}

/* Beside those with more workers, so by the same clock. */
static void prepare_one(unsigned workers)
{
    fork_prepare_clock(workers);
    bench_prepare_pool(1);
}

#define ON_ONE_WORKER(work, figure)                                                                                    \
    .name = "fork." #work, .workers = 1,                                                                               \
    .subjects = {                                                                                                      \
        { "stint", .prepare = prepare, .measure = fork_measure_##figure },                                             \
        { "serial", .program = "stint-bench-glibc" },                                                                  \
        { "tbb", .program = "stint-bench-tbb", .package = "libtbb-dev" },                                              \
        { "libgomp", .program = "stint-bench-libgomp", .package = "libgomp1" },                                        \
    }

#define ON_TWO_WORKERS(work, figure)                                                                                   \
    .name = "fork." #work ".2", .workers = 2,                                                                          \
    .subjects = {                                                                                                      \
        { "stint", .prepare = prepare, .measure = fork_measure_##figure },                                             \
        { "one-worker", .prepare = prepare_one, .measure = fork_measure_##figure },                                    \
        { "tbb", .program = "stint-bench-tbb", .package = "libtbb-dev" },                                              \
        { "libgomp", .program = "stint-bench-libgomp", .package = "libgomp1" },                                        \
    },                                                                                                                 \
    .targets = { { "stint", BENCH_RATIO, 1 / 1.9, "one-worker" } }

const struct bench bench_forking[] = {
    { ON_ONE_WORKER(fib, fib), .unit = "ns/op",
      .what = "a fork and its join, in Fibonacci numbers; one worker, in one bounded task", .rounds = 4,
      .targets = { { "stint", BENCH_RATIO, 2.2, "serial" } } },
    { ON_ONE_WORKER(queens, queens), .unit = "ns/op", .what = "a queen placed, of 12 on their board", .rounds = 4 },
    { ON_ONE_WORKER(uts, tree), .unit = "ns/op", .what = "a node of an unbalanced tree", .rounds = 4 },
    { ON_ONE_WORKER(sort, sort), .unit = "ms", .what = "a merge sort of 10,000,000 integers", .rounds = 1 },
    { ON_TWO_WORKERS(fib, fib), .unit = "ns/op", .what = "the same on two workers, and on one", .rounds = 4 },
    { ON_TWO_WORKERS(queens, queens), .unit = "ns/op", .what = "the same on two workers, and on one", .rounds = 4 },
    { ON_TWO_WORKERS(uts, tree), .unit = "ns/op", .what = "the same on two workers, and on one", .rounds = 4 },
    { ON_TWO_WORKERS(sort, sort), .unit = "ms", .what = "the same on two workers, and on one", .rounds = 1 },
    { .name = NULL },
};
