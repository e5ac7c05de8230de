/* SPDX-License-Identifier: MIT
 *
 * The split deque: its private and its public part, order, holes; each fork runs exactly once. */
#include "split_stress.h"

static struct sti_split split;
static stint_subtask subtasks[STI_SPLIT_CAPACITY + 1];

static int empty_split(void **state)
{
    (void)state;
    sti_split_init(&split);
    return 0;
}

static void fork_some(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        subtasks[i].arg_ = &subtasks[i];
        assert_true(push_fork(&split, &subtasks[i]));
    }
}

static bool share(void)
{
    return sti_split_share(&split, sti_split_depth(&split), STRESS_FAMILY);
}

static bool holds(const stint_subtask *subtask)
{
    return sti_split_holds(&split, subtask->place_, subtask);
}

static void *steal(void)
{
    const struct sti_offer *offer = sti_split_steal(&split, NULL);
    return offer != NULL ? offer->arg : NULL;
}

TEST_WITH(private_forks_cannot_be_stolen, empty_split, NULL)
{
    fork_some(4);
    assert_null(steal());
    assert_false(sti_split_is_public(&split));
}

TEST_WITH(the_older_half_is_shared_and_the_oldest_is_stolen_first, empty_split, NULL)
{
    fork_some(5);
    assert_true(share());
    for (size_t i = 0; i < 3; i++)
        assert_ptr_equal(steal(), &subtasks[i]);
    assert_null(steal());
}

TEST_WITH(one_private_fork_is_shared_too, empty_split, NULL)
{
    fork_some(1);
    assert_true(share());
    assert_ptr_equal(steal(), &subtasks[0]);
}

TEST_WITH(with_nothing_to_share_a_question_stays, empty_split, NULL)
{
    assert_false(sti_split_is_asked(&split));
    sti_split_ask(&split);
    assert_true(sti_split_is_asked(&split));
    assert_false(share());
    assert_true(sti_split_is_asked(&split));
    fork_some(1);
    assert_true(share());
    assert_false(sti_split_is_asked(&split));
}

TEST_WITH(who_asks_makes_forks_and_joins_go_the_slow_way, empty_split, NULL)
{
    assert_int_equal(split.forks.limit, sti_split_place(&split, STI_SPLIT_CAPACITY));
    assert_int_equal(split.forks.floor, sti_split_place(&split, 0));
    sti_split_ask(&split);
    assert_int_equal(split.forks.limit, 0);
    assert_int_equal(split.forks.floor, SIZE_MAX);
    fork_some(4);
    assert_true(share());
    assert_int_equal(split.forks.limit, sti_split_place(&split, STI_SPLIT_CAPACITY));
    assert_int_equal(split.forks.floor, sti_split_place(&split, 2));
}

TEST_WITH(the_owner_takes_back_what_is_public_but_not_what_is_stolen, empty_split, NULL)
{
    fork_some(4);
    assert_true(share());
    assert_ptr_equal(steal(), &subtasks[0]);
    for (size_t i = 4; i-- > 1;)
        assert_true(sti_split_take(&split, i));
    assert_false(sti_split_take(&split, 0));
    assert_null(steal());
    sti_split_forget(&split, 0);
    assert_int_equal(sti_split_depth(&split), 0);
    assert_int_equal(split.forks.floor, sti_split_place(&split, 0));
}

TEST_WITH(taking_the_newest_public_fork_leaves_older_ones_public, empty_split, NULL)
{
    fork_some(8);
    assert_true(share());
    for (size_t i = 8; i-- > 3;)
        assert_true(sti_split_take(&split, i));
    assert_ptr_equal(steal(), &subtasks[0]);
}

TEST_WITH(joins_in_the_order_of_the_forks_give_their_places_back, empty_split, NULL)
{
    for (int round = 0; round < 3; round++) {
        fork_some(STI_SPLIT_CAPACITY);
        for (size_t i = 0; i < STI_SPLIT_CAPACITY; i++) {
            assert_true(holds(&subtasks[i]));
            assert_true(sti_split_take(&split, i));
            assert_false(holds(&subtasks[i]));
        }
        assert_int_equal(sti_split_depth(&split), 0);
        assert_int_equal(split.holes, 0);
    }
}

TEST_WITH(a_hole_is_never_shared, empty_split, NULL)
{
    fork_some(6);
    assert_true(sti_split_take(&split, 0));
    assert_true(sti_split_take(&split, 2));
    assert_true(share());
    assert_ptr_equal(steal(), &subtasks[1]);
    assert_null(steal());
    assert_true(share());
    assert_ptr_equal(steal(), &subtasks[3]);
    assert_ptr_equal(steal(), &subtasks[4]);
    assert_null(steal());
}

TEST_WITH(while_there_are_holes_joins_take_the_slow_way, empty_split, NULL)
{
    fork_some(3);
    assert_true(sti_split_take(&split, 1));
    assert_int_equal(split.forks.floor, SIZE_MAX);
    assert_true(sti_split_take(&split, 2));
    assert_int_equal(sti_split_depth(&split), 1);
    assert_int_equal(split.forks.floor, sti_split_place(&split, 0));
}

TEST_WITH(a_full_deque_refuses, empty_split, NULL)
{
    fork_some(STI_SPLIT_CAPACITY);
    assert_false(push_fork(&split, &subtasks[STI_SPLIT_CAPACITY]));
    assert_true(share());
    assert_ptr_equal(steal(), &subtasks[0]);
    assert_false(push_fork(&split, &subtasks[STI_SPLIT_CAPACITY]));
}

TEST_WITH(a_thief_that_wants_a_family_gets_no_other, empty_split, NULL)
{
    fork_some(2);
    assert_true(share());
    assert_false(sti_split_offers(&split, STRESS_OTHER_FAMILY));
    assert_null(sti_split_steal(&split, STRESS_OTHER_FAMILY));
    assert_true(sti_split_offers(&split, STRESS_FAMILY));
    const struct sti_offer *offer = sti_split_steal(&split, STRESS_FAMILY);
    assert_non_null(offer);
    assert_ptr_equal(offer->arg, &subtasks[0]);
    assert_false(sti_split_offers(&split, STRESS_FAMILY));
}

TEST_WITH(the_forks_of_a_task_below_are_out_of_sight, empty_split, NULL)
{
    fork_some(4);
    assert_true(share());
    assert_ptr_equal(steal(), &subtasks[0]);
    struct sti_split_below below = sti_split_enter(&split);
    assert_null(steal());
    assert_false(holds(&subtasks[1]));
    subtasks[4].arg_ = &subtasks[4];
    assert_true(push_fork(&split, &subtasks[4]));
    assert_true(holds(&subtasks[4]));
    assert_true(share());
    assert_ptr_equal(steal(), &subtasks[4]);
    sti_split_forget(&split, 4);
    sti_split_leave(&split, below);
    assert_true(holds(&subtasks[1]));
    assert_ptr_equal(steal(), &subtasks[1]);
    assert_null(steal());
    assert_int_equal(split.forks.floor, sti_split_place(&split, 2));
}

TEST_WITH(holes_of_the_task_below_are_there_again_when_it_goes_on, empty_split, NULL)
{
    fork_some(4);
    assert_true(sti_split_take(&split, 1));
    struct sti_split_below below = sti_split_enter(&split);
    subtasks[4].arg_ = &subtasks[4];
    assert_true(push_fork(&split, &subtasks[4]));
    assert_true(sti_split_take(&split, 4));
    sti_split_leave(&split, below);
    assert_int_equal(split.forks.floor, SIZE_MAX);
    assert_true(sti_split_take(&split, 3));
    assert_true(sti_split_take(&split, 2));
    assert_int_equal(sti_split_depth(&split), 1);
    assert_int_equal(split.forks.floor, sti_split_place(&split, 0));
}

TEST(each_fork_runs_exactly_once)
{
    stress_split(1000000);
}

TEST_MAIN()
