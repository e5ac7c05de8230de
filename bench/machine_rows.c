/* SPDX-License-Identifier: MIT
 *
 * machine.*: what the machine's primitives cost in this run, to tell what its other figures mean. */
#include "bench.h"

#define PRIMITIVE(primitive, in, is)                                                                                   \
    {                                                                                                                  \
        .name = "machine." #primitive, .unit = in, .what = is, .rounds = 12,                                           \
        .subjects = { { "machine", .program = "stint-bench-glibc", .bare = true } },                                   \
    }

const struct bench bench_machine[] = {
    PRIMITIVE(call, "ns/op", "a call of a function that does nothing, by a pointer"),
    PRIMITIVE(clock, "ns/op", "a reading of CLOCK_MONOTONIC"),
    PRIMITIVE(locked, "ns/op", "an atomic addition to a word that nobody else touches"),
    PRIMITIVE(wake, "ns", "from waking a thread that has slept for 5 ms to its first instruction"),
    { .name = NULL },
};
