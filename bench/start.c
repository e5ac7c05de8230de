/* SPDX-License-Identifier: MIT
 *
 * start.*: what a library costs a process that does nothing, by being loaded. */
#include "bench.h"

#define START(subject)                                                                                                 \
    {                                                                                                                  \
        subject, .program = "stint-bench-start-" subject                                                               \
    }

const struct bench bench_start[] = {
    { .name = "start.empty",
      .unit = "us",
      .what = "a process that does nothing, from its start to its end",
      .rounds = 10,
      .subjects = { START("stint"),
                    { "profiler", .program = "stint-bench-start-profiler", .package = "libdw-dev" },
                    START("mimalloc"),
                    START("nothing") } },
    { .name = NULL },
};
