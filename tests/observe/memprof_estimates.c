/* SPDX-License-Identifier: MIT
 *
 * A profile's estimates are unbiased, and their intervals hold as promised; memprof_estimates_long has more of both. */
#include "memprof_estimates.h"

TEST(estimates_of_one_size_are_unbiased)
{
    assert_unbiased(one_size, 300000);
}

TEST(estimates_of_sizes_over_six_decades_are_unbiased)
{
    assert_unbiased(six_decades, 5000);
}

TEST(estimates_of_a_leak_among_noise_are_unbiased)
{
    assert_unbiased(leak_among_noise, 300000);
}

TEST(an_interval_of_95_percent_holds_the_truth_as_often)
{
    assert_in_range(count_covered(1e-4, 1000), 930, 970);
}

TEST_MAIN()
