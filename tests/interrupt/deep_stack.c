/* SPDX-License-Identifier: MIT
 *
 * Interrupts that have to wait at the end of a very deep stack: an allocation may not walk all of it each time, and
 * the wait ends with its cause. A walk for each would take ten minutes here, and the test would time out. */
#include "support.h"

#define DEPTH 20000

static size_t inside; /* allocations below the comparator, past the limit */
static size_t after;  /* behind the sort */

static int allocate_to_the_end(void)
{
    for (void *block; (block = stint_malloc(16)) != NULL; inside++)
        stint_free(block);
    return 0;
}

static __attribute__((noinline)) int go_down(volatile int depth, int (*bottom)(void))
{
    return depth > 0 ? go_down(depth - 1, bottom) + depth : bottom();
}

static int compare_deeply(const void *left, const void *right)
{
    go_down(DEPTH, allocate_to_the_end);
    return *(const int *)left - *(const int *)right;
}

static int sort_and_go_on(void *arg, void **value)
{
    (void)arg;
    (void)value;
    int numbers[] = { 2, 1 };
    qsort(numbers, 2, sizeof *numbers, compare_deeply);
    for (void *block; (block = stint_malloc(16)) != NULL; after++)
        stint_free(block);
    return 1;
}

static stint_outcome run_limited(stint_fn *function)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = 1000;
    inside = after = 0;
    return run_task(function, NULL, &options);
}

TEST(allocations_under_a_deep_comparator_use_up_the_grace)
{
    stint_outcome outcome = run_limited(sort_and_go_on);
    assert_int_equal(outcome.reason, STINT_REASON_ALLOCATION_LIMIT);
    assert_true(inside > 60000); /* of 16 bytes, in a MiB */
    assert_true(outcome.usage.deferred > 60000);
    assert_true(after <= 1);
}

static int pass_the_limit(void)
{
    for (int i = 0; i < 100; i++, inside++)
        stint_free(stint_malloc(16));
    return 0;
}

static int compare_past_the_limit(const void *left, const void *right)
{
    go_down(DEPTH, pass_the_limit);
    return *(const int *)left - *(const int *)right;
}

static int sort_past_the_limit(void *arg, void **value)
{
    (void)arg;
    (void)value;
    int numbers[] = { 2, 1 };
    qsort(numbers, 2, sizeof *numbers, compare_past_the_limit);
    for (void *block; (block = stint_malloc(16)) != NULL; after++)
        stint_free(block);
    return 1;
}

TEST(the_wait_ends_with_the_frame_that_it_was_for)
{
    stint_outcome outcome = run_limited(sort_past_the_limit);
    assert_int_equal(outcome.reason, STINT_REASON_ALLOCATION_LIMIT);
    assert_int_equal(inside, 100);
    assert_true(after * 16 < 16 * KIB); /* until it is asked about again */
}

static int pass_the_limit_at_the_bottom(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return go_down(DEPTH, allocate_to_the_end) != 0;
}

TEST(a_deep_stack_of_the_tasks_own_is_left_at_once)
{
    stint_outcome outcome = run_limited(pass_the_limit_at_the_bottom);
    assert_int_equal(outcome.reason, STINT_REASON_ALLOCATION_LIMIT);
    assert_true(inside < 1000 / 16 + 1);
    assert_int_equal(outcome.usage.deferred, 0);
}

TEST_MAIN()
