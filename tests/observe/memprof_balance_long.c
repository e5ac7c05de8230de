/* SPDX-License-Identifier: MIT
 *
 * As memprof_balance, over a million tasks. */
#include "memprof_balance.h"

TEST(every_sampled_block_of_very_many_tasks_ends_once)
{
    assert_balanced(repeats(700000), false, 1024);
    assert_balanced(repeats(300000), true, 0);
}

TEST_MAIN()
