/* SPDX-License-Identifier: MIT
 *
 * contain.*: a job in a task against a job in a thread or a process of its own, which is how one contains it without
 * stint. */
#include <libxml/parser.h>

#include "bench.h"
#include "task.h"
#include "work.h"

#define JOBS 200 /* a measurement */

static void prepare_job(unsigned workers)
{
    work_hold_much(workers);
    bench_prepare_pool(workers);
}

static size_t job(double *figures)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = (size_t)1 << 20;
    double begin = bench_now_ns();
    for (size_t i = 0; i < JOBS; i++) {
        stint_future *future = bench_submit(bench_ten_pairs, NULL, &options);
        stint_future_wait(future, NULL);
        stint_future_release(future);
    }
    figures[0] = (bench_now_ns() - begin) / JOBS;
    return 1;
}

static void prepare_bomb(unsigned workers)
{
    xmlInitParser();
    bench_prepare_pool(workers);
}

static int parse_bomb(void *arg, void **value)
{
    (void)arg;
    (void)value;
    work_billion_laughs();
    return 0;
}

/* The bomb, and the next job behind it. */
static size_t bomb(double *figures)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    options.budget.memory = (size_t)64 << 20;
    double begin = bench_now_ns();
    stint_future *future = bench_submit(parse_bomb, NULL, &options);
    stint_future *next = bench_submit(bench_empty_task, NULL, NULL);
    stint_future_wait(next, NULL);
    figures[0] = (bench_now_ns() - begin) / 1e6;
    stint_future_wait(future, &outcome);
    stint_future_release(future);
    stint_future_release(next);
    return outcome.reason == STINT_REASON_MEMORY_LIMIT ? 1 : 0;
}

#define PLAIN(subject)                                                                                                 \
    {                                                                                                                  \
        subject, .program = "stint-bench-glibc"                                                                        \
    }

const struct bench bench_contain[] = {
    { .name = "contain.job",
      .unit = "ns/op",
      .what = "a bounded job of 10 mallocs in a process that holds 256 MB",
      .rounds = 8,
      .subjects = { { "stint", .prepare = prepare_job, .measure = job }, PLAIN("pthread"), PLAIN("fork-rlimit") },
      .targets = { { "stint", BENCH_RATIO, 0.15, "pthread" } } },
    { .name = "contain.bomb",
      .unit = "ms",
      .what = "stop a billion laughs at 64 MiB and be ready for the next job",
      .rounds = 8,
      .subjects = { { "stint", .prepare = prepare_bomb, .measure = bomb }, PLAIN("fork-rlimit") } },
    { .name = NULL },
};
