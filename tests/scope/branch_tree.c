/* SPDX-License-Identifier: MIT
 *
 * Some random trees of branches; branch_tree_long runs the full number. */
#include "branch_tree.h"

static void test_random_trees_leave_a_balanced_ledger(void **state)
{
    (void)state;
    test_random_trees(repeats(1500));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_trees_leave_a_balanced_ledger),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
