/* SPDX-License-Identifier: MIT
 *
 * fork.typed: typed forks, beside plain ones and beside Lace, whose form they have. The Fibonacci numbers of Lace's own
 * benchmark: nothing but forks. */
#include <stint/stint.h>

#include "bench.h"
#include "fork_fib.h"
#include "task.h"

STINT_FORKABLE(typed, int, int)

static int typed(stint_here here, int n)
{
    struct typed_subtask left;
    int sum;
    if (n < 2)
        return n;
    typed_fork(here, &left, n - 1);
    int right = typed(here, n - 2);
    if (typed_join(here, &left, &sum) != 0)
        return 0;
    return sum + right;
}

static int run_typed(void *arg, void **value)
{
    (void)value;
    double *figure = arg;
    double begin = bench_process_ns();
    int sum = typed(stint_here_current(), FORK_TYPED);
    *figure = (bench_process_ns() - begin) / (double)fork_fib_forks(FORK_TYPED);
    return sum == FORK_TYPED_RESULT ? 0 : 1;
}

struct plain {
    int n;
    int result;
};

static int plain(void *arg, void **value)
{
    struct plain *whole = arg;
    (void)value;
    whole->result = whole->n;
    if (whole->n < 2)
        return 0;
    struct plain left = { whole->n - 1, 0 };
    struct plain right = { whole->n - 2, 0 };
    stint_subtask subtask;
    stint_fork(&subtask, plain, &left);
    plain(&right, NULL);
    stint_join(&subtask, NULL);
    whole->result = left.result + right.result;
    return 0;
}

static int run_plain(void *arg, void **value)
{
    double *figure = arg;
    struct plain whole = { FORK_TYPED, 0 };
    double begin = bench_process_ns();
    plain(&whole, value);
    *figure = (bench_process_ns() - begin) / (double)fork_fib_forks(FORK_TYPED);
    return whole.result == FORK_TYPED_RESULT ? 0 : 1;
}

static size_t measure(stint_fn *fn, double *figures)
{
    stint_outcome outcome;
    stint_future *future = bench_submit(fn, figures, NULL);
    stint_future_wait(future, &outcome);
    stint_future_release(future);
    return outcome.status == STINT_OK;
}

static size_t measure_typed(double *figures)
{
    return measure(run_typed, figures);
}

static size_t measure_plain(double *figures)
{
    return measure(run_plain, figures);
}

const struct bench bench_fork_typed[] = {
    { .name = "fork.typed",
      .workers = 1,
      .unit = "ns/op",
      .what = "a typed fork and its join, in Fibonacci numbers; one worker",
      .rounds = 4,
      .subjects = { { "stint", .prepare = bench_prepare_pool, .measure = measure_typed },
                    { "plain", .prepare = bench_prepare_pool, .measure = measure_plain },
                    { "lace", .program = "stint-bench-lace", .package = "Lace, by meson subprojects download lace" } },
      .targets = { { "stint", BENCH_RATIO, 1.1, "lace" } } },
    { .name = NULL },
};
