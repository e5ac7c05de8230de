/* SPDX-License-Identifier: MIT
 *
 * The work-stealing deque under load for longer. */
#include "deque_stress.h"
#include "repeats.h"

TEST(each_of_very_many_entries_is_taken_exactly_once)
{
    stress_deque(repeats(100000000));
}

TEST_MAIN()
