/* SPDX-License-Identifier: MIT
 *
 * Simulated tasks under the library's sampler (simulation.h). */
#include "simulation.h"

#include <stdbool.h>

#include "alloc/platform/sampling.h"

#define MEAN_SIZE 8192

/* So many bytes in blocks of random sizes, the last of them cut to fit. The sampler goes on where the task before left
 * it, as a thread's does. */
static bool is_sampled(struct sti_sampler *sampler, uint64_t *to_next, struct sti_sampler *sizes, uint64_t bytes)
{
    uint64_t samples = 0;
    while (bytes > 0) {
        uint64_t size = 16 + sti_sampler_interval(sizes);
        if (size > bytes)
            size = bytes;
        samples += sti_sampler_count(sampler, to_next, size);
        bytes -= size;
    }
    return samples > 0;
}

struct simulation_tail simulate_tail(uint64_t seed, double mean, uint64_t tasks)
{
    struct sti_sampler sampler;
    struct sti_sampler sizes;
    struct simulation_tail tail = { .unsampled = { (double)tasks } };
    sti_sampler_init(&sampler, seed, mean);
    sti_sampler_init(&sizes, ~seed, MEAN_SIZE);
    uint64_t to_next = sti_sampler_interval(&sampler);
    for (uint64_t task = 0; task < tasks; task++) {
        for (int i = 1; i <= SIMULATION_MEANS && !is_sampled(&sampler, &to_next, &sizes, (uint64_t)mean); i++)
            tail.unsampled[i]++;
    }
    return tail;
}

double simulate_interrupted(uint64_t seed, double mean, uint64_t tasks, unsigned k, double bytes)
{
    struct sti_sampler sampler;
    double interrupted = 0;
    sti_sampler_init(&sampler, seed, mean);
    for (uint64_t task = 0; task < tasks; task++) {
        uint64_t sampled_byte = 0;
        for (unsigned sample = 0; sample < k; sample++)
            sampled_byte += sti_sampler_interval(&sampler);
        if ((double)sampled_byte < bytes)
            interrupted++;
    }
    return interrupted;
}
