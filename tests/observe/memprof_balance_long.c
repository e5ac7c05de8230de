/* SPDX-License-Identifier: MIT
 *
 * As memprof_balance, over a million tasks. */
#include "memprof_balance.h"

TEST(every_sampled_block_of_a_million_tasks_ends_once)
{
    assert_balanced(700000, false, 1024);
    assert_balanced(300000, true, 0);
}

TEST_MAIN()
