/* SPDX-License-Identifier: MIT
 *
 * map.*: what it costs that mmap and munmap are overridden, so that what a task maps counts for its limits. */
#include "bench.h"
#include "task.h"
#include "work.h"

static size_t in_task(double *figures)
{
    return bench_in_task(work_map, 0, figures);
}

const struct bench bench_map[] = {
    { .name = "map.pair",
      .unit = "ns/op",
      .what = "mmap and munmap of 64 KiB, of which one page is written to; stint: in a task",
      .rounds = 30,
      .subjects = { { "stint", .measure = in_task },
                    { "stint-idle", .measure = work_map },
                    { "plain", .program = "stint-bench-glibc" } },
      .targets = { { "stint", BENCH_RATIO, 1.05, "plain" }, { "stint-idle", BENCH_RATIO, 1.05, "plain" } } },
    { .name = NULL },
};
