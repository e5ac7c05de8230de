/* SPDX-License-Identifier: MIT
 *
 * start.*: what a library costs a process that does nothing, by being loaded; at its start, and when it forks. */
#include "bench.h"

#define START(subject)                                                                                                 \
    {                                                                                                                  \
        subject, .program = "stint-bench-start-" subject                                                               \
    }

/* Of what they cost beside mimalloc. */
#define EMPTY_MAX 1.25
#define FORK_MAX 1.1

const struct bench bench_start[] = {
    { .name = "start.empty",
      .unit = "us",
      .what = "a process that does nothing, from its start to its end",
      .rounds = 10,
      .subjects = { START("stint"),
                    { "profiler", .program = "stint-bench-start-profiler", .package = "libdw-dev" },
                    START("mimalloc"),
                    START("nothing") },
      .targets = { { "stint", BENCH_RATIO, EMPTY_MAX, "mimalloc" } } },
    { .name = "start.fork",
      .unit = "us",
      .what = "fork(2) of a process with one thread, the end of the child, and the wait for it",
      .rounds = 10,
      .subjects = { START("stint"),
                    { "stint-used", .program = "stint-bench-start-stint" },
                    START("mimalloc"),
                    START("nothing") },
      .targets = { { "stint", BENCH_RATIO, FORK_MAX, "mimalloc" } } },
    { .name = NULL },
};
