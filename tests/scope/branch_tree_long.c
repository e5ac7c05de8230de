/* SPDX-License-Identifier: MIT
 *
 * A hundred thousand random trees of branches. */
#include "branch_tree.h"

TEST(random_trees_leave_a_balanced_ledger)
{
    test_random_trees(repeats(100000));
}

TEST_MAIN()
