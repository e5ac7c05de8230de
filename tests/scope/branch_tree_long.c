/* SPDX-License-Identifier: MIT
 *
 * A hundred thousand random trees of branches. */
#include "branch_tree.h"

static void test_random_trees_leave_a_balanced_ledger(void **state)
{
    (void)state;
    test_random_trees(100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_trees_leave_a_balanced_ledger),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
