/* SPDX-License-Identifier: MIT
 *
 * The peer Lace (van Dijk and van de Pol 2014): stint-bench-lace. */
#include <lace.h>

#include "fork_fib.h"
#include "serve.h"

TASK_1(int, fib, int, n)
{
    if (n < 2)
        return n;
    SPAWN(fib, n - 1);
    int right = CALL(fib, n - 2);
    int left = SYNC(fib);
    return left + right;
}

TASK_1(double, timed, int, n)
{
    double begin = bench_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    int sum = CALL(fib, n);
    double ns = bench_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
    return sum == FORK_TYPED_RESULT ? ns / (double)fork_fib_forks((uint64_t)n) : 0;
}

static void prepare(unsigned workers)
{
    lace_start(workers, 100000);
}

static size_t measure(double *figures)
{
    figures[0] = RUN(timed, FORK_TYPED);
    return figures[0] > 0;
}

int main(int argc, char **argv)
{
    static const struct bench_work works[] = {
        { "fork.typed", "lace", prepare, measure },
        { NULL, NULL, NULL, NULL },
    };
    return bench_serve_main(works, argc, argv);
}
