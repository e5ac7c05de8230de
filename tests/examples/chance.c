/* SPDX-License-Identifier: MIT
 *
 * The functions behind docs/metering.md: against published figures, against sums and inverses of themselves, and
 * against what the real sampler does to simulated tasks. */
#include "support.h"

#include <math.h>

#include "chance.h"
#include "simulation.h"

#define MEAN 80000.0 /* memprof-limits' default: 10^-4 samples a word */
#define RATE 1e-4
#define TASKS 2000000

static void assert_near(double number, double expected, double relative)
{
    assert_true(fabs(number - expected) <= relative * expected);
}

TEST(the_figures_of_memprof_limits_hold)
{
    assert_true(chance_sampled(80.0 * KIB, MEAN) > 0.64);
    assert_true(chance_missed(1.62 * MIB, MEAN) < 1e-9);
    assert_true(chance_missed(2.5 * MIB, MEAN) < 1e-14);
    assert_true(chance_missed(8.8 * MIB, MEAN) < 1e-50);
    assert_near(chance_bytes_until_sampled(1e-50, MEAN), 8.784 * MIB, 1e-4);
    assert_near(chance_sampled(1, MEAN), 1 / MEAN, 1e-5);
}

/* Summed with 60 digits by another program. */
TEST(the_chance_of_an_interrupt_is_right_in_far_tails)
{
    static const struct {
        double k, means, by_bytes, by_words;
    } known[] = {
        { 3, 1e-3, 1.66541716653e-10, 1.19937015118e-10 },   { 6, 1e-2, 1.37703605634e-15, 1.18248683567e-15 },
        { 20, 2, 6.44373139311e-14, 6.39432260279e-14 },     { 100, 40, 1.20625420531e-15, 1.20087061749e-15 },
        { 1000, 700, 1.01585833453e-26, 1.00932026241e-26 }, { 100000, 97000, 4.74352684103e-22, 4.7213457428e-22 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_near(chance_interrupted(known[i].k, known[i].means * MEAN, MEAN), known[i].by_bytes, 1e-9);
        assert_near(chance_interrupted_words(known[i].k, known[i].means / RATE, RATE), known[i].by_words, 1e-9);
    }
}

/* 50 words, 3 samples or more, each word sampled with a chance of 0.1. */
TEST(counting_by_words_is_the_cumulative_binomial)
{
    double fewer = 0;
    double binomial = pow(0.9, 50);
    (void)state;
    for (int samples = 0; samples < 3; samples++) {
        fewer += binomial;
        binomial *= (50.0 - samples) / (samples + 1) / 9;
    }
    assert_near(chance_interrupted_words(3, 50, 0.1), 1 - fewer, 1e-12);
    assert_true(chance_interrupted_words(3, 2, 0.1) == 0);
    assert_near(chance_interrupted_words(3, 3, 0.1), 1e-3, 1e-12);
}

TEST(the_safe_amount_is_the_largest_below_the_target)
{
    static const double targets[] = { 1e-9, 4e-15, 1e-50 };
    static const double samples[] = { 3, 6, 20, 100, 1000, 10000 };
    (void)state;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        for (size_t j = 0; j < sizeof targets / sizeof *targets; j++) {
            double words = chance_safe_words(samples[i], RATE, targets[j]);
            assert_true(chance_interrupted_words(samples[i], words, RATE) <= targets[j]);
            assert_true(chance_interrupted_words(samples[i], words + 1, RATE) > targets[j]);
            double bytes = chance_safe(samples[i], MEAN, targets[j]);
            assert_near(chance_interrupted(samples[i], bytes, MEAN), targets[j], 1e-6);
            if (words > 1e5)
                assert_near(bytes, words * RATE * MEAN, 1e-3);
        }
    }
}

/* memprof-limits calls a limit reasonable from about 20,000 words on, which take a limit of about 200,000; and useless
 * under 60,000. */
TEST(the_published_verdicts_on_small_limits_hold)
{
    double safe = chance_safe_words(20, RATE, 4e-15);
    assert_true(safe > 15000 && safe < 20000);
    assert_true((200000 - safe) / safe < 11);
    assert_true(chance_safe_words(6, RATE, 4e-15) < 200);
}

TEST(the_interval_of_an_estimate_holds_its_truth_as_often_as_it_says)
{
    static const double truths[] = { 0.5, 3, 20, 300 };
    (void)state;
    for (size_t i = 0; i < sizeof truths / sizeof *truths; i++) {
        double held = 0;
        double chance = exp(-truths[i]);
        for (double samples = 0; samples < 1000; samples++) {
            struct chance_interval interval = chance_expected(samples, 0.05);
            if (interval.low <= truths[i] && truths[i] <= interval.high)
                held += chance;
            chance *= truths[i] / (samples + 1);
        }
        assert_true(held >= 0.95 && held < 0.995);
    }
}

TEST(the_simulated_tail_agrees_with_the_formula)
{
    struct simulation_tail tail = simulate_tail(2, MEAN, TASKS);
    (void)state;
    for (int i = 1; i <= SIMULATION_MEANS; i++) {
        struct chance_interval share = chance_of(tail.unsampled[i], TASKS, 0.01);
        double missed = chance_missed(i * MEAN, MEAN);
        assert_true(share.low <= missed && missed <= share.high);
    }
}

TEST(simulated_limits_agree_with_the_formula)
{
    static const double shares[] = { 0.25, 0.5, 0.75, 1, 1.5 };
    static const unsigned samples[] = { 1, 5, 20 };
    (void)state;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        for (size_t j = 0; j < sizeof shares / sizeof *shares; j++) {
            double bytes = shares[j] * samples[i] * MEAN;
            double interrupted = simulate_interrupted(i * 16 + j, MEAN, 50000, samples[i], bytes);
            struct chance_interval share = chance_of(interrupted, 50000, 0.001);
            double chance = chance_interrupted(samples[i], bytes, MEAN);
            assert_true(share.low <= chance && chance <= share.high);
        }
    }
}

TEST_MAIN()
