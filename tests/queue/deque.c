/* SPDX-License-Identifier: MIT
 *
 * The work-stealing deque: order, capacity, and that each entry is taken exactly once. */
#include "deque_stress.h"
#include "repeats.h"

static struct sti_deque deque;

static int empty_deque(void **state)
{
    (void)state;
    sti_deque_init(&deque);
    return 0;
}

static void *entry(size_t number)
{
    return (void *)(uintptr_t)number;
}

TEST_WITH(an_empty_deque_gives_nothing, empty_deque, NULL)
{
    assert_true(sti_deque_is_empty(&deque));
    assert_null(sti_deque_take(&deque));
    assert_null(sti_deque_steal(&deque));
    assert_true(sti_deque_push(&deque, entry(1)));
    assert_false(sti_deque_is_empty(&deque));
    assert_ptr_equal(sti_deque_take(&deque), entry(1));
    assert_null(sti_deque_take(&deque));
    assert_null(sti_deque_steal(&deque));
    assert_true(sti_deque_is_empty(&deque));
}

TEST_WITH(the_owner_takes_the_newest_and_a_thief_the_oldest, empty_deque, NULL)
{
    for (size_t i = 1; i <= 4; i++)
        assert_true(sti_deque_push(&deque, entry(i)));
    assert_ptr_equal(sti_deque_take(&deque), entry(4));
    assert_ptr_equal(sti_deque_steal(&deque), entry(1));
    assert_ptr_equal(sti_deque_take(&deque), entry(3));
    assert_ptr_equal(sti_deque_steal(&deque), entry(2));
    assert_null(sti_deque_steal(&deque));
}

TEST_WITH(a_full_deque_refuses_and_has_room_again_after_a_theft, empty_deque, NULL)
{
    for (size_t i = 1; i <= STI_DEQUE_CAPACITY; i++)
        assert_true(sti_deque_push(&deque, entry(i)));
    assert_false(sti_deque_push(&deque, entry(999)));
    assert_ptr_equal(sti_deque_steal(&deque), entry(1));
    assert_true(sti_deque_push(&deque, entry(1000)));
    assert_false(sti_deque_push(&deque, entry(1001)));
    assert_ptr_equal(sti_deque_take(&deque), entry(1000));
}

TEST_WITH(entries_keep_their_order_when_the_slots_wrap_around, empty_deque, NULL)
{
    size_t pushed = 0;
    size_t stolen = 0;
    while (stolen < 10 * STI_DEQUE_CAPACITY) {
        for (int i = 0; i < 100 && sti_deque_push(&deque, entry(pushed + 1)); i++)
            pushed++;
        for (int i = 0; i < 70 && stolen < pushed; i++)
            assert_ptr_equal(sti_deque_steal(&deque), entry(++stolen));
    }
    while (stolen < pushed)
        assert_ptr_equal(sti_deque_take(&deque), entry(pushed--));
    assert_true(sti_deque_is_empty(&deque));
}

TEST(each_entry_is_taken_exactly_once)
{
    stress_deque(repeats(10000000));
}

TEST_MAIN()
