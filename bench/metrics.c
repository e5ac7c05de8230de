/* SPDX-License-Identifier: MIT
 *
 * metrics.*: what it costs to read what the process counts, while a pool's workers are there and have counted. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <stint/stint.h>

#include "bench.h"
#include "task.h"

#define ACCOUNTS 10
#define READINGS 20

static int nowhere;

static void prepare(unsigned workers)
{
    bench_prepare_pool(workers);
    nowhere = open("/dev/null", O_WRONLY);
    for (int i = 0; i < ACCOUNTS; i++) {
        char name[32];
        snprintf(name, sizeof name, "account %d", i);
        const stint_account_limits limits = { .size = sizeof limits, .name = name };
        stint_options options = STINT_OPTIONS_INIT;
        if (nowhere < 0 || stint_account_create(NULL, &limits, &options.account) != 0)
            abort();
        bench_finish(bench_submit(bench_empty_task, NULL, &options));
        stint_account_release(options.account);
    }
}

static size_t read_all(double *figures)
{
    double begin = bench_now_ns();
    for (int i = 0; i < READINGS; i++) {
        if (stint_metrics_write(nowhere) != 0)
            return 0;
    }
    figures[0] = (bench_now_ns() - begin) / READINGS;
    return 1;
}

const struct bench bench_metrics[] = {
    { .name = "metrics.read",
      .unit = "ns/op",
      .what = "stint_metrics_write to /dev/null: one pool, 10 accounts",
      .rounds = 12,
      .workers = BENCH_ALL,
      .subjects = { { "stint", .prepare = prepare, .measure = read_all } } },
    { .name = NULL },
};
