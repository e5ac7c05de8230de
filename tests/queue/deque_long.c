/* SPDX-License-Identifier: MIT
 *
 * The work-stealing deque under load for longer. */
#include "deque_stress.h"

static void each_of_a_hundred_million_entries_is_taken_exactly_once(void **state)
{
    (void)state;
    stress_deque(100000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(each_of_a_hundred_million_entries_is_taken_exactly_once) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
