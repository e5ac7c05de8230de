/* SPDX-License-Identifier: MIT
 *
 * The split deque under load for longer. */
#include "split_stress.h"

static void each_of_a_hundred_million_forks_runs_exactly_once(void **state)
{
    (void)state;
    stress_split(100000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(each_of_a_hundred_million_forks_runs_exactly_once) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
