/* SPDX-License-Identifier: MIT
 *
 * wipe.*: what options.wipe costs a task. One thread. */
#include <stdlib.h>
#include <stint/stint.h>
#include <string.h>

#include "bench.h"
#include "task.h"

#define RUNS 500 /* a slice of small tasks */
#define BLOCKS 4096
#define BLOCK_SIZE 256

static bool wiped;

static void prepare_wiped(unsigned workers)
{
    (void)workers;
    wiped = true;
}

static void run(stint_fn *fn, void *arg)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    options.wipe = wiped;
    stint_run(fn, arg, &options, &outcome);
}

static void small_tasks(void *unused)
{
    (void)unused;
    for (int i = 0; i < RUNS; i++)
        run(bench_ten_pairs, NULL);
}

static size_t alloc_ten(double *figures)
{
    figures[0] = bench_slices(small_tasks, NULL, RUNS);
    return 1;
}

/* Fill a MiB and fail; the function itself is left out. */
static int fill_and_fail(void *ended, void **value)
{
    (void)value;
    for (int i = 0; i < BLOCKS; i++) {
        void *volatile block = malloc(BLOCK_SIZE);
        memset(block, 1, BLOCK_SIZE);
    }
    *(double *)ended = bench_thread_ns();
    return 1;
}

static size_t roll_back(double *figures)
{
    double ended;
    run(fill_and_fail, &ended);
    figures[0] = (bench_thread_ns() - ended) / 1e3;
    return 1;
}

const struct bench bench_wipe[] = {
    { .name = "wipe.alloc10",
      .unit = "ns/op",
      .what = "stint_run of 10 malloc/free pairs, whose blocks are wiped",
      .rounds = 10,
      .subjects = { { "stint-wipe", .prepare = prepare_wiped, .measure = alloc_ten },
                    { "unwiped", .measure = alloc_ten } } },
    { .name = "wipe.rollback",
      .unit = "us",
      .what = "roll 1 MiB in blocks of 256 bytes back and wipe them",
      .rounds = 20,
      .subjects = { { "stint-wipe", .prepare = prepare_wiped, .measure = roll_back },
                    { "unwiped", .measure = roll_back } } },
    { .name = NULL },
};
