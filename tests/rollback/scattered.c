/* SPDX-License-Identifier: MIT
 *
 * Results freed in any order by any thread, beside tasks that take, give up and end the heaps in which they lie. */
#include "scattered.h"

static void test_results_may_be_freed_while_their_heaps_are_given_up(void **state)
{
    (void)state;
    check_scattered(3000, 3000, 8);
}

static void test_results_of_all_sizes_may_be_freed_while_their_heaps_are_given_up(void **state)
{
    (void)state;
    check_scattered(200, 200, 16);
}

static void test_results_may_be_freed_while_their_thread_ends(void **state)
{
    (void)state;
    check_scattered(1000, 20, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results_may_be_freed_while_their_heaps_are_given_up),
        cmocka_unit_test(test_results_of_all_sizes_may_be_freed_while_their_heaps_are_given_up),
        cmocka_unit_test(test_results_may_be_freed_while_their_thread_ends),
    };
    return cmocka_run_group_tests(tests, never_scan, NULL);
}
