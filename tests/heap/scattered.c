/* SPDX-License-Identifier: MIT
 *
 * Results freed in any order by any thread, beside tasks that take, give up and end the heaps in which they lie. */
#include "scattered.h"

TEST(results_may_be_freed_while_their_heaps_are_given_up)
{
    check_scattered(3000, 3000, 8);
}

TEST(results_of_all_sizes_may_be_freed_while_their_heaps_are_given_up)
{
    check_scattered(200, 200, 16);
}

TEST(results_may_be_freed_while_their_thread_ends)
{
    check_scattered(1000, 20, 8);
}

TEST_MAIN_WITH(never_scan, NULL)
