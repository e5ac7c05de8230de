/* SPDX-License-Identifier: MIT
 *
 * A profile's estimates beside the truth: workloads of which each block is counted exactly, too. Seeds are fixed, so
 * each test always gives the same answer. */
#ifndef TESTS_MEMPROF_ESTIMATES_H
#define TESTS_MEMPROF_ESTIMATES_H

#include "support.h"

#include <math.h>

static const double estimates_rates[] = { 1e-5, 1e-4, 1e-3 };
#define ESTIMATES_RATES (sizeof estimates_rates / sizeof estimates_rates[0])

/* With variances: those of the estimates, from the truth. */
struct estimates {
    double interval;
    double samples;
    double bytes, true_bytes;
    double blocks, true_blocks, blocks_variance;
    double live, true_live; /* bytes, of what the workload keeps */
};

static inline void *estimates_alloc(const stint_memprof_allocation *allocation, void *arg)
{
    struct estimates *estimates = arg;
    double bytes = (double)allocation->samples * allocation->interval;
    double *live = stint_malloc(sizeof *live);
    estimates->samples += (double)allocation->samples;
    estimates->bytes += bytes;
    estimates->blocks += bytes / (double)allocation->charged;
    estimates->live += bytes;
    *live = bytes;
    return live;
}

static inline void estimates_dealloc(void *metadata, stint_memprof_end end, void *arg)
{
    struct estimates *estimates = arg;
    double *live = metadata;
    if (end != STINT_MEMPROF_STOPPED)
        estimates->live -= *live;
    stint_free(live);
}

static inline void *counted_malloc(struct estimates *estimates, size_t size)
{
    double charged = (double)((size + (size == 0) + 15) / 16 * 16);
    estimates->true_bytes += charged;
    estimates->true_blocks += 1;
    estimates->blocks_variance += estimates->interval / charged;
    return keep(stint_malloc(size));
}

struct workload {
    void (*run)(struct workload *workload);
    size_t amount;
    uint64_t random;
    struct estimates estimates;
};

static inline void one_size(struct workload *workload)
{
    for (size_t i = 0; i < workload->amount; i++)
        stint_free(counted_malloc(&workload->estimates, 112));
}

/* From 10 bytes to 10 million, every size of the logarithm as likely. */
static inline void six_decades(struct workload *workload)
{
    for (size_t i = 0; i < workload->amount; i++) {
        double part = (double)(random_next(&workload->random) >> 11) * 0x1p-53;
        stint_free(counted_malloc(&workload->estimates, (size_t)pow(10, 1 + 6 * part)));
    }
}

/* Blocks that are kept, a thirtieth of all; the rest is noise of all sizes. */
static inline void leak_among_noise(struct workload *workload)
{
    for (size_t i = 0; i < workload->amount; i++) {
        stint_free(counted_malloc(&workload->estimates, random_size(&workload->random, 11)));
        if (i % 30 == 0) {
            counted_malloc(&workload->estimates, 1000);
            workload->estimates.true_live += 1008;
        }
    }
}

static int run_workload(void *arg, void **value)
{
    struct workload *workload = arg;
    (void)value;
    workload->run(workload);
    return ECANCELED; /* give the leak back */
}

static int run_profiled(void *arg, void **value)
{
    struct workload *workload = arg;
    stint_memprof_options options = STINT_MEMPROF_OPTIONS_INIT;
    (void)value;
    options.interval = 0;
    options.rate = 8 / workload->estimates.interval;
    options.callstack_depth = 0;
    options.seed = workload->random;
    options.tracker = (stint_memprof_tracker){ estimates_alloc, NULL, estimates_dealloc };
    options.arg = &workload->estimates;
    int error = stint_memprof_start(&options);
    if (error != 0)
        return error;
    run_workload(workload, value);
    return stint_memprof_stop() == 0 ? ECANCELED : EINVAL;
}

static inline struct estimates estimate(void (*run)(struct workload *), size_t amount, double rate, uint64_t seed)
{
    struct workload workload = { .run = run, .amount = amount, .random = seed, .estimates = { .interval = 8 / rate } };
    assert_outcome(run_task(run_profiled, &workload, NULL), STINT_ERROR, STINT_REASON_FAILED, ECANCELED);
    return workload.estimates;
}

static inline void assert_near(double estimate, double truth, double variance)
{
    assert_true(fabs(estimate - truth) <= 4 * sqrt(variance));
}

static inline void assert_unbiased(void (*run)(struct workload *), size_t amount)
{
    for (size_t i = 0; i < ESTIMATES_RATES; i++) {
        struct estimates of = estimate(run, amount, estimates_rates[i], 7 + i);
        assert_true(of.samples > 10);
        assert_near(of.bytes, of.true_bytes, of.true_bytes * of.interval);
        assert_near(of.blocks, of.true_blocks, of.blocks_variance);
        assert_near(of.live, of.true_live, of.true_live * of.interval);
    }
}

static inline void medium_sizes(struct workload *workload)
{
    for (size_t i = 0; i < workload->amount; i++)
        stint_free(counted_malloc(&workload->estimates, random_size(&workload->random, 17)));
}

/* How many of the runs have the truth in their own 95 % interval, in which the variance is estimated too. */
static inline unsigned count_covered(double rate, unsigned runs)
{
    unsigned covered = 0;
    size_t amount = (size_t)(200 / rate / 2000); /* some 200 samples */
    for (unsigned i = 0; i < runs; i++) {
        struct estimates of = estimate(medium_sizes, amount, rate, 1000 + i);
        covered += fabs(of.bytes - of.true_bytes) <= 1.96 * of.interval * sqrt(of.samples);
    }
    return covered;
}

#endif
