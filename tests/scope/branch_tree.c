/* SPDX-License-Identifier: MIT
 *
 * Some random trees of branches; branch_tree_long runs the full number. */
#include "branch_tree.h"

TEST(random_trees_leave_a_balanced_ledger)
{
    test_random_trees(repeats(1500));
}

TEST_MAIN()
