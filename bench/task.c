/* SPDX-License-Identifier: MIT
 *
 * Running the work of the benchmark in tasks; see task.h. */
#include "task.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "work.h"

stint_pool *bench_pool;

int bench_empty_task(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return 0;
}

int bench_ten_pairs(void *arg, void **value)
{
    (void)arg;
    (void)value;
    work_ten_pairs();
    return 0;
}

struct measurement {
    bench_measure_fn *work;
    double *figures;
    size_t count;
};

static int measure(void *arg, void **value)
{
    struct measurement *measurement = arg;
    (void)value;
    measurement->count = measurement->work(measurement->figures);
    return 0;
}

size_t bench_in_task(bench_measure_fn *work, uint64_t wall_ns, double *figures)
{
    struct measurement measurement = { .work = work, .figures = figures };
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    options.budget = (stint_budget){ .allocation = (size_t)1 << 40, .memory = (size_t)1 << 30, .wall_ns = wall_ns };
    if (stint_run(measure, &measurement, &options, &outcome) != 0 || outcome.status != STINT_OK)
        return 0;
    return measurement.count;
}

void bench_prepare_pool(unsigned workers)
{
    stint_pool_options options = STINT_POOL_OPTIONS_INIT;
    options.workers = workers;
    if (stint_pool_create(&options, &bench_pool) != 0)
        exit(1);
}

stint_future *bench_submit(stint_fn *fn, void *arg, const stint_options *options)
{
    stint_future *future;
    int error;
    while ((error = stint_submit(bench_pool, fn, arg, options, &future)) == EAGAIN)
        sched_yield();
    if (error != 0)
        exit(1);
    return future;
}

void bench_finish(stint_future *future)
{
    stint_future_wait(future, NULL);
    stint_future_release(future);
}
