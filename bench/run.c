/* SPDX-License-Identifier: MIT
 *
 * run.*: what it costs to run a task in place. */
#include "bench.h"
#include "task.h"

#define RUNS 500 /* a slice */

struct job {
    stint_fn *fn;
    unsigned flags;
};

static void slice(void *arg)
{
    const struct job *job = arg;
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    options.flags = job->flags;
    options.budget.memory = (size_t)1 << 20;
    for (int i = 0; i < RUNS; i++)
        stint_run(job->fn, NULL, &options, &outcome);
}

static size_t run_empty(double *figures)
{
    struct job job = { bench_empty_task, 0 };
    figures[0] = bench_slices(slice, &job, RUNS);
    return 1;
}

static size_t run_empty_untimed(double *figures)
{
    struct job job = { bench_empty_task, STINT_UNTIMED };
    figures[0] = bench_slices(slice, &job, RUNS);
    return 1;
}

static size_t run_alloc_ten(double *figures)
{
    struct job job = { bench_ten_pairs, 0 };
    figures[0] = bench_slices(slice, &job, RUNS);
    return 1;
}

/* They call the function without a task; the first two make and destroy a heap of mimalloc's around it, one of them of
 * mimalloc 2.0, where that took less. */
#define OTHERS                                                                                                         \
    { "new-heap", .program = "stint-bench-mimalloc" },                                                                 \
        { "old-heap", .program = "stint-bench-old-heap", .package = "libmimalloc-dev of version 2" },                  \
    {                                                                                                                  \
        "raw", .program = "stint-bench-mimalloc"                                                                       \
    }

const struct bench bench_run[] = {
    { .name = "run.empty",
      .unit = "ns/op",
      .what = "stint_run of an empty task with a memory limit",
      .rounds = 30,
      .subjects = { { "stint", .measure = run_empty }, { "stint-untimed", .measure = run_empty_untimed }, OTHERS },
      .targets = { { "stint", BENCH_RATIO, 0.30, "old-heap" } } },
    { .name = "run.alloc10",
      .unit = "ns/op",
      .what = "stint_run of a task that makes 10 malloc/free pairs",
      .rounds = 30,
      .subjects = { { "stint", .measure = run_alloc_ten }, OTHERS },
      .targets = { { "stint", BENCH_RATIO, 0.20, "old-heap" } } },
    { .name = NULL },
};
