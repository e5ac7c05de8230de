/* SPDX-License-Identifier: MIT
 *
 * The split deque: what is private and what is public, order, holes, and that each fork runs exactly once. */
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
        subtasks[i].arg = &subtasks[i];
        assert_true(sti_split_push(&split, &subtasks[i]));
    }
}

static bool share(void)
{
    return sti_split_share(&split, split.forks.depth, STRESS_FAMILY);
}

static void *steal(void)
{
    const struct sti_offer *offer = sti_split_steal(&split, NULL);
    return offer != NULL ? offer->arg : NULL;
}

static void private_forks_cannot_be_stolen(void **state)
{
    (void)state;
    fork_some(4);
    assert_null(steal());
    assert_false(sti_split_is_public(&split));
}

static void the_older_half_is_shared_and_the_oldest_is_stolen_first(void **state)
{
    (void)state;
    fork_some(5);
    assert_true(share());
    for (size_t i = 0; i < 3; i++)
        assert_ptr_equal(steal(), &subtasks[i]);
    assert_null(steal());
}

static void one_private_fork_is_shared_too(void **state)
{
    (void)state;
    fork_some(1);
    assert_true(share());
    assert_ptr_equal(steal(), &subtasks[0]);
}

static void with_nothing_to_share_a_question_stays(void **state)
{
    (void)state;
    assert_false(sti_split_is_asked(&split));
    sti_split_ask(&split);
    assert_true(sti_split_is_asked(&split));
    assert_false(share());
    assert_true(sti_split_is_asked(&split));
    fork_some(1);
    assert_true(share());
    assert_false(sti_split_is_asked(&split));
}

static void who_asks_makes_forks_and_joins_go_the_slow_way(void **state)
{
    (void)state;
    assert_int_equal(split.forks.limit, STI_SPLIT_CAPACITY);
    assert_int_equal(split.forks.floor, 0);
    sti_split_ask(&split);
    assert_int_equal(split.forks.limit, 0);
    assert_int_equal(split.forks.floor, SIZE_MAX);
    fork_some(4);
    assert_true(share());
    assert_int_equal(split.forks.limit, STI_SPLIT_CAPACITY);
    assert_int_equal(split.forks.floor, 2);
}

static void the_owner_takes_back_what_is_public_but_not_what_is_stolen(void **state)
{
    (void)state;
    fork_some(4);
    assert_true(share());
    assert_ptr_equal(steal(), &subtasks[0]);
    for (size_t i = 4; i-- > 1;)
        assert_true(sti_split_take(&split, i));
    assert_false(sti_split_take(&split, 0));
    assert_null(steal());
    sti_split_forget(&split, 0);
    assert_int_equal(split.forks.depth, 0);
    assert_int_equal(split.forks.floor, 0);
}

static void taking_the_newest_public_fork_leaves_older_ones_public(void **state)
{
    (void)state;
    fork_some(8);
    assert_true(share());
    for (size_t i = 8; i-- > 3;)
        assert_true(sti_split_take(&split, i));
    assert_ptr_equal(steal(), &subtasks[0]);
}

static void joins_in_the_order_of_the_forks_give_their_places_back(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++) {
        fork_some(STI_SPLIT_CAPACITY);
        for (size_t i = 0; i < STI_SPLIT_CAPACITY; i++) {
            assert_true(sti_split_holds(&split, &subtasks[i]));
            assert_true(sti_split_take(&split, i));
            assert_false(sti_split_holds(&split, &subtasks[i]));
        }
        assert_int_equal(split.forks.depth, 0);
        assert_int_equal(split.holes, 0);
    }
}

static void a_hole_is_never_shared(void **state)
{
    (void)state;
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

static void while_there_are_holes_joins_take_the_slow_way(void **state)
{
    (void)state;
    fork_some(3);
    assert_true(sti_split_take(&split, 1));
    assert_int_equal(split.forks.floor, SIZE_MAX);
    assert_true(sti_split_take(&split, 2));
    assert_int_equal(split.forks.depth, 1);
    assert_int_equal(split.forks.floor, 0);
}

static void a_full_deque_refuses(void **state)
{
    (void)state;
    fork_some(STI_SPLIT_CAPACITY);
    assert_false(sti_split_push(&split, &subtasks[STI_SPLIT_CAPACITY]));
    assert_true(share());
    assert_ptr_equal(steal(), &subtasks[0]);
    assert_false(sti_split_push(&split, &subtasks[STI_SPLIT_CAPACITY]));
}

static void a_thief_that_wants_a_family_gets_no_other(void **state)
{
    (void)state;
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

static void the_forks_of_a_task_below_are_out_of_sight(void **state)
{
    (void)state;
    fork_some(4);
    assert_true(share());
    assert_ptr_equal(steal(), &subtasks[0]);
    struct sti_split_below below = sti_split_enter(&split);
    assert_null(steal());
    assert_false(sti_split_holds(&split, &subtasks[1]));
    subtasks[4].arg = &subtasks[4];
    assert_true(sti_split_push(&split, &subtasks[4]));
    assert_true(sti_split_holds(&split, &subtasks[4]));
    assert_true(share());
    assert_ptr_equal(steal(), &subtasks[4]);
    sti_split_forget(&split, 4);
    sti_split_leave(&split, below);
    assert_true(sti_split_holds(&split, &subtasks[1]));
    assert_ptr_equal(steal(), &subtasks[1]);
    assert_null(steal());
    assert_int_equal(split.forks.floor, 2);
}

static void each_fork_runs_exactly_once(void **state)
{
    (void)state;
    stress_split(1000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(private_forks_cannot_be_stolen, empty_split),
        cmocka_unit_test_setup(the_older_half_is_shared_and_the_oldest_is_stolen_first, empty_split),
        cmocka_unit_test_setup(one_private_fork_is_shared_too, empty_split),
        cmocka_unit_test_setup(with_nothing_to_share_a_question_stays, empty_split),
        cmocka_unit_test_setup(who_asks_makes_forks_and_joins_go_the_slow_way, empty_split),
        cmocka_unit_test_setup(the_owner_takes_back_what_is_public_but_not_what_is_stolen, empty_split),
        cmocka_unit_test_setup(taking_the_newest_public_fork_leaves_older_ones_public, empty_split),
        cmocka_unit_test_setup(joins_in_the_order_of_the_forks_give_their_places_back, empty_split),
        cmocka_unit_test_setup(a_hole_is_never_shared, empty_split),
        cmocka_unit_test_setup(while_there_are_holes_joins_take_the_slow_way, empty_split),
        cmocka_unit_test_setup(a_full_deque_refuses, empty_split),
        cmocka_unit_test_setup(a_thief_that_wants_a_family_gets_no_other, empty_split),
        cmocka_unit_test_setup(the_forks_of_a_task_below_are_out_of_sight, empty_split),
        cmocka_unit_test(each_fork_runs_exactly_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
