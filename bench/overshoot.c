/* SPDX-License-Identifier: MIT
 *
 * limit.overshoot, memory.overshoot: by how many bytes a limit is passed. Beside our exact counting, the simulation of
 * a meter that looks only at Poisson samples, one in 80 KB on average, as memprof-limits does. The same random work for
 * both, which does not depend on the machine. */
#include <malloc.h>
#include <stdlib.h>

#include "alloc/platform/sampling.h"
#include "bench.h"
#include "task.h"

#define TASKS 40 /* a measurement */
#define ALLOCATION_LIMIT ((size_t)1 << 20)
#define MEMORY_LIMIT ((size_t)4 << 20)
#define SAMPLE_MEAN 80000.0
#define BLOCKS 8192

static uint64_t random_state;
static struct sti_sampler sampler;

/* xorshift64*, by Marsaglia and Vigna. */
static uint64_t next_random(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * 0x2545f4914f6cdd1d;
}

/* Each measurement has tasks of its own, the same ones for both subjects. */
static void begin_measurement(uint64_t *measurement)
{
    random_state = ++*measurement * 0x9e3779b97f4a7c15;
    sti_sampler_init(&sampler, *measurement, SAMPLE_MEAN);
}

static double beyond(size_t bytes, size_t limit)
{
    return bytes > limit ? (double)(bytes - limit) : 0;
}

static size_t small_size(void)
{
    return 16 + next_random() % 255 * 16;
}

/* Every size class from 16 bytes to 64 KiB. */
static size_t any_size(void)
{
    size_t magnitude = (size_t)16 << next_random() % 12;
    return magnitude + next_random() % magnitude / 16 * 16;
}

/* What the task has reached, for the caller to see when it was stopped. */
static size_t reached;

static int allocate_small(void *arg, void **value)
{
    (void)arg;
    (void)value;
    void *volatile block;
    do {
        size_t size = small_size();
        block = malloc(size);
        free(block);
        reached += size;
    } while (block != NULL);
    return 1;
}

static int hold_more_and_more(void *arg, void **value)
{
    void *blocks[BLOCKS]; /* on the stack, which is no root that would keep the task's heap */
    size_t held = 0;
    (void)arg;
    (void)value;
    for (size_t count = 0; count < BLOCKS;) {
        blocks[count] = malloc(any_size());
        held += malloc_usable_size(blocks[count++]);
        if (held > reached)
            reached = held;
        if (next_random() % 3 == 0) {
            size_t which = next_random() % count;
            held -= malloc_usable_size(blocks[which]);
            free(blocks[which]);
            blocks[which] = blocks[--count];
        }
    }
    return 1;
}

static size_t measure(stint_fn *fn, stint_budget budget, stint_reason reason, double *figures)
{
    static uint64_t measurement;
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    options.budget = budget;
    begin_measurement(&measurement);
    for (size_t i = 0; i < TASKS; i++) {
        reached = 0;
        if (stint_run(fn, NULL, &options, &outcome) != 0 || outcome.reason != reason)
            return 0;
        figures[i] = beyond(reached, budget.allocation + budget.memory);
    }
    return TASKS;
}

static size_t allocation_limit(double *figures)
{
    return measure(allocate_small, (stint_budget){ .allocation = ALLOCATION_LIMIT }, STINT_REASON_ALLOCATION_LIMIT,
                   figures);
}

static size_t memory_limit(double *figures)
{
    return measure(hold_more_and_more, (stint_budget){ .memory = MEMORY_LIMIT }, STINT_REASON_MEMORY_LIMIT, figures);
}

/* The task is stopped at the sample that stands for the limit on average: then half of the tasks pass it, and the
 * others are stopped before they reach it. */
static size_t sampled_allocation_limit(double *figures)
{
    static uint64_t measurement;
    begin_measurement(&measurement);
    for (size_t i = 0; i < TASKS; i++) {
        size_t bytes = 0;
        for (double samples = ALLOCATION_LIMIT / SAMPLE_MEAN; samples > 0; samples--)
            bytes += sti_sampler_interval(&sampler);
        figures[i] = beyond(bytes, ALLOCATION_LIMIT);
    }
    return TASKS;
}

/* At each sample it is known exactly what the task holds. */
static size_t sampled_memory_limit(double *figures)
{
    static uint64_t measurement;
    size_t blocks[BLOCKS];
    begin_measurement(&measurement);
    for (size_t i = 0; i < TASKS; i++) {
        uint64_t to_next = sti_sampler_interval(&sampler);
        size_t held = 0;
        size_t max = 0;
        for (size_t count = 0; count < BLOCKS;) {
            blocks[count] = any_size();
            held += blocks[count];
            if (held > max)
                max = held;
            if (sti_sampler_count(&sampler, &to_next, blocks[count++]) > 0 && held > MEMORY_LIMIT)
                break;
            if (next_random() % 3 == 0) {
                size_t which = next_random() % count;
                held -= blocks[which];
                blocks[which] = blocks[--count];
            }
        }
        figures[i] = beyond(max, MEMORY_LIMIT);
    }
    return TASKS;
}

const struct bench bench_overshoot[] = {
    { .name = "limit.overshoot",
      .unit = "bytes",
      .what = "how far an allocation limit of 1 MiB is passed",
      .rounds = 6,
      .no_ratios = true,
      .subjects = { { "stint", .measure = allocation_limit }, { "sampled", .measure = sampled_allocation_limit } },
      .targets = { { "stint", BENCH_MAX, 0, NULL } } },
    { .name = "memory.overshoot",
      .unit = "bytes",
      .what = "how far a memory limit of 4 MiB is passed",
      .rounds = 6,
      .no_ratios = true,
      .subjects = { { "stint", .measure = memory_limit }, { "sampled", .measure = sampled_memory_limit } },
      .targets = { { "stint", BENCH_MAX, 65536, NULL } } },
    { .name = NULL },
};
