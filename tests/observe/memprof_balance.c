/* SPDX-License-Identifier: MIT
 *
 * Every sampled block gets exactly one end; tests/observe/memprof_balance.h has the tasks. memprof_balance_long runs a
 * million. */
#include "memprof_balance.h"

TEST(every_sampled_block_ends_once)
{
    assert_balanced(repeats(8000), false, 1024);
    assert_balanced(repeats(3000), false, 64); /* nearly every block */
}

TEST(every_sampled_block_ends_once_when_the_profile_is_stopped_meanwhile)
{
    assert_balanced(repeats(8000), true, 0);
}

TEST_MAIN()
