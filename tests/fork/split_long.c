/* SPDX-License-Identifier: MIT
 *
 * The split deque under load for longer. */
#include "split_stress.h"

TEST(each_of_a_hundred_million_forks_runs_exactly_once)
{
    stress_split(100000000);
}

TEST_MAIN()
