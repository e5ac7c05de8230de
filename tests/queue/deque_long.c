/* SPDX-License-Identifier: MIT
 *
 * The work-stealing deque under load for longer. */
#include "deque_stress.h"

TEST(each_of_a_hundred_million_entries_is_taken_exactly_once)
{
    stress_deque(100000000);
}

TEST_MAIN()
