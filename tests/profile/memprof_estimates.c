/* SPDX-License-Identifier: MIT
 *
 * A profile's estimates are unbiased, and their intervals hold what they say; memprof_estimates_long has more of both. */
#include "memprof_estimates.h"

static void estimates_of_one_size_are_unbiased(void **state)
{
    (void)state;
    assert_unbiased(one_size, 300000);
}

static void estimates_of_sizes_over_six_decades_are_unbiased(void **state)
{
    (void)state;
    assert_unbiased(six_decades, 5000);
}

static void estimates_of_a_leak_among_noise_are_unbiased(void **state)
{
    (void)state;
    assert_unbiased(leak_among_noise, 300000);
}

static void an_interval_of_95_percent_holds_the_truth_as_often(void **state)
{
    (void)state;
    assert_in_range(count_covered(1e-4, 1000), 930, 970);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(estimates_of_one_size_are_unbiased),
        cmocka_unit_test(estimates_of_sizes_over_six_decades_are_unbiased),
        cmocka_unit_test(estimates_of_a_leak_among_noise_are_unbiased),
        cmocka_unit_test(an_interval_of_95_percent_holds_the_truth_as_often),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
