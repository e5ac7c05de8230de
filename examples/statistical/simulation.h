/* SPDX-License-Identifier: MIT
 *
 * Tasks that allocate while the library's own sampler watches them: how often is what the formulas say seen? No task is
 * run; the sampler is asked what it would have sampled. */
#ifndef EXAMPLES_SIMULATION_H
#define EXAMPLES_SIMULATION_H

#include <stdint.h>

#define SIMULATION_MEANS 10

/* Tasks that allocate blocks of random sizes, up to so many means each. unsampled[i]: how many of them had no sample
 * after i means. */
struct simulation_tail {
    double unsampled[SIMULATION_MEANS + 1];
};
struct simulation_tail simulate_tail(uint64_t seed, double mean, uint64_t tasks);

/* How many of the tasks were interrupted, at their k-th sample, before they had allocated so many bytes. */
double simulate_interrupted(uint64_t seed, double mean, uint64_t tasks, unsigned k, double bytes);

#endif
