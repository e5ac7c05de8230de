/* SPDX-License-Identifier: MIT
 *
 * The Poisson sampler: the distribution of its samples, and that they do not depend on one another. Seeds are fixed, so
 * each test always gives the same answer; its threshold is the value that a right sampler passes once in a thousand
 * seeds, or more rarely where it says so. */
#include "support.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_randist.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>

#include "alloc/platform/sampling.h"

#define SAMPLES 10000000
#define FINE 0x1p40 /* bytes: a mean so large that whole bytes do not show */
#define BINS 65536
#define RARE 0.001

static struct sti_sampler sampler_of(uint64_t seed, double mean)
{
    struct sti_sampler sampler;
    sti_sampler_init(&sampler, seed, mean);
    return sampler;
}

/* The probability of a shorter interval: uniform between 0 and 1 when the intervals are exponential. A sample falls
 * somewhere in its byte, on average in the middle. */
static double next_uniform(struct sti_sampler *sampler)
{
    double interval = (double)sti_sampler_interval(sampler);
    return interval < 1 ? 0 : -expm1(-(interval - 0.5) / sampler->mean_bytes);
}

/* Neither too far from what is expected nor too near. */
static void assert_chi_square(double chi_square, double freedom)
{
    assert_true(chi_square < gsl_cdf_chisq_Qinv(RARE / 2, freedom));
    assert_true(chi_square > gsl_cdf_chisq_Pinv(RARE / 2, freedom));
}

static void assert_evenly_filled(const uint32_t *bins, size_t count, double total)
{
    double expected = total / (double)count;
    double chi_square = 0;
    for (size_t i = 0; i < count; i++)
        chi_square += (bins[i] - expected) * (bins[i] - expected) / expected;
    assert_chi_square(chi_square, (double)count - 1);
}

static uint32_t bins[BINS];

static void fill_bins(double mean)
{
    struct sti_sampler sampler = sampler_of(1, mean);
    memset(bins, 0, sizeof bins);
    for (size_t i = 0; i < SAMPLES; i++)
        bins[(size_t)(next_uniform(&sampler) * BINS)]++;
}

/* Looked at between the bins; within a bin it can be larger by the bin's width at most. */
static double kolmogorov_distance(void)
{
    double farthest = 0;
    uint64_t below = 0;
    for (size_t i = 0; i < BINS; i++) {
        below += bins[i];
        farthest = fmax(farthest, fabs((double)below / SAMPLES - (double)(i + 1) / BINS));
    }
    return farthest + 1.0 / BINS;
}

TEST(intervals_are_exponential_by_kolmogorov_and_smirnov)
{
    static const double means[] = { 80000, 524288, FINE };
    (void)state;
    for (size_t i = 0; i < sizeof means / sizeof *means; i++) {
        fill_bins(means[i]);
        assert_true(kolmogorov_distance() < sqrt(-log(RARE / 2) / 2 / SAMPLES));
    }
}

TEST(intervals_are_exponential_by_chi_square)
{
    fill_bins(FINE);
    assert_evenly_filled(bins, BINS, SAMPLES);
}

/* In the far tail, too: each further mean leaves 1/e of the intervals, and 11 means about 167 of 10^7. */
TEST(the_tail_of_the_intervals_is_exponential)
{
    struct sti_sampler sampler = sampler_of(2, FINE);
    uint32_t longer_than[12] = { 0 };
    (void)state;
    for (size_t i = 0; i < SAMPLES; i++) {
        double means = (double)sti_sampler_interval(&sampler) / FINE;
        for (size_t j = 0; j < 12 && means > (double)j; j++)
            longer_than[j]++;
    }
    for (unsigned j = 1; j < 12; j++) {
        double p = exp(-(double)j);
        assert_true(longer_than[j] > SAMPLES * p - 4 * sqrt(SAMPLES * p * (1 - p)));
        assert_true(longer_than[j] < SAMPLES * p + 4 * sqrt(SAMPLES * p * (1 - p)));
    }
}

TEST(intervals_do_not_depend_on_earlier_ones)
{
    struct sti_sampler sampler = sampler_of(3, FINE);
    double product[6] = { 0 };
    double before[8] = { 0 };
    uint32_t triples[4096] = { 0 };
    (void)state;
    for (size_t i = 0; i < SAMPLES; i++) {
        double centred = next_uniform(&sampler) - 0.5;
        before[i % 8] = centred;
        for (size_t lag = 1; lag < 6; lag++)
            product[lag] += centred * before[(i + 8 - lag) % 8];
        if (i % 3 == 2)
            triples[(size_t)((centred + 0.5) * 16) * 256 + (size_t)((before[(i + 7) % 8] + 0.5) * 16) * 16 +
                    (size_t)((before[(i + 6) % 8] + 0.5) * 16)]++;
    }
    double most = gsl_cdf_ugaussian_Qinv(RARE / 2 / 5);
    for (size_t lag = 1; lag < 6; lag++)
        assert_true(fabs(product[lag] / SAMPLES * 12 * sqrt(SAMPLES)) < most);
    assert_evenly_filled(triples, 4096, SAMPLES / 3);
}

/* How many of the blocks have 0, 1, 2, ... samples; those with an expected number under 10 together at either end. */
static void assert_poisson(const uint32_t *blocks_with, unsigned most, double blocks, double mean)
{
    double chi_square = 0;
    double freedom = -1;
    double expected = 0;
    double found = 0;
    for (unsigned k = 0; k <= most; k++) {
        expected += blocks * (k == most ? gsl_cdf_poisson_Q(most - 1, mean) : gsl_ran_poisson_pdf(k, mean));
        found += blocks_with[k];
        if (expected >= 10 && (k == most || blocks * gsl_cdf_poisson_Q(k, mean) >= 10)) {
            chi_square += (found - expected) * (found - expected) / expected;
            freedom++;
            expected = found = 0;
        }
    }
    assert_true(expected < 10 && found < 40);
    assert_true(freedom >= 1);
    assert_chi_square(chi_square, freedom);
}

static void assert_blocks_are_poisson(double mean, uint64_t size, size_t blocks)
{
    uint32_t blocks_with[256] = { 0 };
    uint32_t pairs[4] = { 0 };
    struct sti_sampler sampler = sampler_of(size, mean);
    uint64_t to_next = sti_sampler_interval(&sampler);
    bool was_sampled = false;
    for (size_t i = 0; i < blocks; i++) {
        uint64_t count = sti_sampler_count(&sampler, &to_next, size);
        blocks_with[count < 255 ? count : 255]++;
        if (i % 2 == 1)
            pairs[was_sampled * 2 + (count > 0)]++;
        was_sampled = count > 0;
    }
    assert_poisson(blocks_with, 255, (double)blocks, (double)size / mean);

    /* Whether a block is sampled says nothing of the next: both of a pair are as often as each is, squared. */
    double sampled = -expm1(-(double)size / mean);
    double both = (double)blocks / 2 * sampled * sampled;
    assert_true(fabs(pairs[3] - both) < 4 * sqrt(both));
}

TEST(the_samples_in_a_block_are_poisson_of_its_size)
{
    assert_blocks_are_poisson(8, 1, 1000000);
    assert_blocks_are_poisson(8, 16, 1000000);
    assert_blocks_are_poisson(8, 1000, 100000);
    assert_blocks_are_poisson(512, 48, 1000000);
    assert_blocks_are_poisson(80000, 16, 1000000);
    assert_blocks_are_poisson(80000, 80000, 1000000);
    assert_blocks_are_poisson(80000, 4000000, 100000);
    assert_blocks_are_poisson(524288, 65536, 1000000);
    assert_blocks_are_poisson(1, 1, 1000000);
    assert_blocks_are_poisson(1, 100, 100000);
}

/* Six decades of sizes in one stream, in any order: the estimate of all bytes is off by chance alone. */
TEST(estimates_have_no_bias_whatever_the_sizes)
{
    static const double means[] = { 8, 800, 8000, 80000, 524288, 1000.5 };
    (void)state;
    for (size_t i = 0; i < sizeof means / sizeof *means; i++) {
        struct sti_sampler sampler = sampler_of(i, means[i]);
        uint64_t to_next = sti_sampler_interval(&sampler);
        uint64_t random = i;
        double bytes = 0;
        double samples = 0;
        for (size_t block = 0; block < 10000; block++) {
            uint64_t size = random_size(&random, 20);
            bytes += (double)size;
            samples += (double)sti_sampler_count(&sampler, &to_next, size);
        }
        assert_true(fabs(samples - bytes / means[i]) < 4 * sqrt(bytes / means[i]));
    }
}

TEST(a_huge_block_has_the_expected_number_of_samples)
{
    struct sti_sampler sampler = sampler_of(4, 8);
    uint64_t to_next = sti_sampler_interval(&sampler);
    double samples = 0;
    (void)state;
    for (size_t i = 0; i < 1000; i++) {
        uint64_t count = sti_sampler_count(&sampler, &to_next, GIB + 5);
        assert_in_range(count, GIB / 8, GIB / 8 + 1);
        samples += (double)(count - GIB / 8);
    }
    assert_in_range(samples, 550, 700); /* 5/8 of a sample each */
    assert_true(sti_sampler_count(&sampler, &to_next, PTRDIFF_MAX) >= PTRDIFF_MAX / 8);
}

/* The rest of a sampled block does not matter: sampling is memoryless, as at the start. */
TEST(the_next_sample_after_a_huge_block_is_as_far_as_any)
{
    uint32_t sixteenths[16] = { 0 };
    struct sti_sampler sampler = sampler_of(5, FINE);
    (void)state;
    for (size_t i = 0; i < 100000; i++) {
        uint64_t to_next = 0;
        sti_sampler_count(&sampler, &to_next, (uint64_t)FINE * (STI_SAMPLER_MAX_DRAWN + 1));
        sixteenths[(size_t)(-expm1(-(double)to_next / FINE) * 16)]++;
    }
    assert_evenly_filled(sixteenths, 16, 100000);
}

TEST(cutting_a_stream_otherwise_leaves_its_samples_where_they_are)
{
    struct sti_sampler whole = sampler_of(6, 1000);
    struct sti_sampler cut = sampler_of(6, 1000);
    uint64_t whole_next = sti_sampler_interval(&whole);
    uint64_t cut_next = sti_sampler_interval(&cut);
    uint64_t random = 6;
    (void)state;
    for (size_t block = 0; block < 100000; block++) {
        uint64_t size = random_size(&random, 14);
        uint64_t part = random_below(&random, size + 1);
        uint64_t samples = sti_sampler_count(&cut, &cut_next, part);
        samples += sti_sampler_count(&cut, &cut_next, size - part);
        assert_int_equal(sti_sampler_count(&whole, &whole_next, size), samples);
        assert_int_equal(whole_next, cut_next);
    }
}

TEST(the_same_seed_gives_the_same_samples)
{
    struct sti_sampler one = sampler_of(7, 80000);
    struct sti_sampler same = sampler_of(7, 80000);
    (void)state;
    for (size_t i = 0; i < 10000; i++)
        assert_int_equal(sti_sampler_interval(&one), sti_sampler_interval(&same));
}

/* As threads have that are seeded one after the other. */
TEST(neighbouring_seeds_give_unrelated_samples)
{
    enum { SEEDS = 100000, LENGTH = 100000 };
    uint32_t first[256] = { 0 };
    static double sequences[2][LENGTH];
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct sti_sampler sampler = sampler_of(seed, FINE);
        first[(size_t)(next_uniform(&sampler) * 256)]++;
    }
    assert_evenly_filled(first, 256, SEEDS);
    for (uint64_t seed = 0; seed < 4; seed++) {
        struct sti_sampler samplers[2] = { sampler_of(seed, FINE), sampler_of(seed + 1, FINE) };
        for (size_t i = 0; i < LENGTH; i++) {
            sequences[0][i] = next_uniform(&samplers[0]);
            sequences[1][i] = next_uniform(&samplers[1]);
        }
        double correlation = gsl_stats_correlation(sequences[0], 1, sequences[1], 1, LENGTH);
        assert_true(fabs(correlation * sqrt(LENGTH)) < gsl_cdf_ugaussian_Qinv(RARE / 2));
    }
}

TEST(an_interval_too_long_for_a_number_is_very_long)
{
    struct sti_sampler sampler = sampler_of(8, 0x1p80);
    (void)state;
    for (size_t i = 0; i < 1000; i++)
        assert_true(sti_sampler_interval(&sampler) == UINT64_C(1) << 62);
}

TEST_MAIN()
