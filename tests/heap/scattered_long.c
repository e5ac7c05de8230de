/* SPDX-License-Identifier: MIT
 *
 * Tens of thousands of tasks whose results are freed in any order by any thread, and threads that come and go. */
#include "scattered.h"

TEST(results_of_many_tasks_may_be_freed_while_their_heaps_are_given_up)
{
    check_scattered(repeats(30000), 30000, 8);
    check_scattered(repeats(2000), 2000, 16);
}

TEST(results_may_be_freed_while_hundreds_of_threads_end)
{
    check_scattered(repeats(10000), 50, 8);
}

TEST_MAIN_WITH(never_scan, NULL)
