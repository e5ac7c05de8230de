/* SPDX-License-Identifier: MIT
 *
 * mutex.pair: what it costs that locks are overridden, so that no task is interrupted while it holds one. */
#include "bench.h"
#include "task.h"
#include "work.h"

static size_t in_task(double *figures)
{
    return bench_in_task(work_mutex, 0, figures);
}

const struct bench bench_mutex[] = {
    { .name = "mutex.pair",
      .unit = "ns/op",
      .what = "a lock and an unlock of an uncontended mutex; stint: in a task",
      .rounds = 30,
      .subjects = { { "stint", .prepare = work_mutex_prepare, .measure = in_task },
                    { "stint-idle", .prepare = work_mutex_prepare, .measure = work_mutex },
                    { "plain", .program = "stint-bench-glibc" } },
      .targets = { { "stint", BENCH_RATIO, 1.2, "plain" }, { "stint-idle", BENCH_RATIO, 1.2, "plain" } } },
    { .name = NULL },
};
