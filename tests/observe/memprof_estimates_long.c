/* SPDX-License-Identifier: MIT
 *
 * As memprof_estimates, with ten million allocations and a thousand runs. */
#include "memprof_estimates.h"

TEST(estimates_of_ten_million_allocations_are_unbiased)
{
    assert_unbiased(one_size, 10000000);
    assert_unbiased(leak_among_noise, 10000000);
}

TEST(an_interval_of_95_percent_holds_the_truth_as_often)
{
    for (size_t i = 0; i < ESTIMATES_RATES; i++)
        assert_in_range(count_covered(estimates_rates[i], 1000), 930, 970);
}

TEST_MAIN()
