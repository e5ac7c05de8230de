/* SPDX-License-Identifier: MIT
 *
 * The split deque under load for longer. */
#include "repeats.h"
#include "split_stress.h"

TEST(each_of_very_many_forks_runs_exactly_once)
{
    stress_split(repeats(100000000));
}

TEST_MAIN()
