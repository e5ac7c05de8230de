/* SPDX-License-Identifier: MIT
 *
 * Every sampled block gets exactly one end; tests/profile/memprof_balance.h has the tasks. memprof_balance_long runs a million. */
#include "memprof_balance.h"

static void every_sampled_block_ends_once(void **state)
{
    (void)state;
    assert_balanced(repeats(8000), false, 1024);
    assert_balanced(repeats(3000), false, 64); /* nearly every block */
}

static void every_sampled_block_ends_once_when_the_profile_is_stopped_meanwhile(void **state)
{
    (void)state;
    assert_balanced(repeats(8000), true, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sampled_block_ends_once),
        cmocka_unit_test(every_sampled_block_ends_once_when_the_profile_is_stopped_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
