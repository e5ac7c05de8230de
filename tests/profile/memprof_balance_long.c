/* SPDX-License-Identifier: MIT
 *
 * As memprof_balance, over a million tasks. */
#include "memprof_balance.h"

static void every_sampled_block_of_a_million_tasks_ends_once(void **state)
{
    (void)state;
    assert_balanced(700000, false, 1024);
    assert_balanced(300000, true, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_sampled_block_of_a_million_tasks_ends_once) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
