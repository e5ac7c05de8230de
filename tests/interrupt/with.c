/* SPDX-License-Identifier: MIT
 *
 * STINT_GUARD and stint_with: release runs exactly once, if and only if there is something to release. */
#include "support.h"

struct resource {
    int acquired;
    int released;
    int acquire_error;
    int use_error;
    bool allocate_in_acquire;
    bool allocate_in_use;
    bool allocate_in_release;
    bool used;
};

static void allocate_beyond_the_limit(void)
{
    for (int i = 0; i < 1000; i++)
        keep(stint_malloc(100));
}

static int acquire(void *argument, void **made)
{
    struct resource *resource = argument;
    if (resource->allocate_in_acquire)
        allocate_beyond_the_limit();
    if (resource->acquire_error != 0)
        return resource->acquire_error;
    resource->acquired++;
    *made = resource;
    return 0;
}

static int use(void *argument, void *made)
{
    struct resource *resource = argument;
    resource->used = made == argument;
    if (resource->allocate_in_use)
        allocate_beyond_the_limit();
    return resource->use_error;
}

static void release(void *argument, void *made)
{
    struct resource *resource = argument;
    if (resource->allocate_in_release)
        allocate_beyond_the_limit();
    resource->released += made == argument;
}

static int run_with(void *resource, void **value)
{
    (void)value;
    return stint_with(acquire, use, release, resource);
}

static const stint_options limited = { .size = sizeof(stint_options), .budget = { .allocation = 10000 } };

TEST(a_resource_is_released_when_its_use_returns)
{
    struct resource resource = { .use_error = 7 };
    assert_outcome(run_task(run_with, &resource, NULL), STINT_ERROR, STINT_REASON_FAILED, 7);
    assert_true(resource.used);
    assert_int_equal(resource.released, 1);
    assert_int_equal(stint_with(acquire, use, release, &resource), 7); /* outside of scopes too */
    assert_int_equal(resource.released, 2);
}

TEST(what_was_not_acquired_is_not_released)
{
    struct resource resource = { .acquire_error = EACCES };
    assert_outcome(run_task(run_with, &resource, NULL), STINT_ERROR, STINT_REASON_FAILED, EACCES);
    assert_false(resource.used);
    assert_int_equal(resource.released, 0);
}

TEST(a_use_that_is_interrupted_releases)
{
    struct resource resource = { .allocate_in_use = true };
    assert_limit_passed(run_task(run_with, &resource, &limited));
    assert_true(resource.used);
    assert_int_equal(resource.released, 1);
}

TEST(an_interrupt_during_acquire_waits_until_it_can_be_released)
{
    struct resource resource = { .allocate_in_acquire = true };
    assert_limit_passed(run_task(run_with, &resource, &limited));
    assert_int_equal(resource.acquired, 1);
    assert_false(resource.used);
    assert_int_equal(resource.released, 1);
}

TEST(an_interrupt_during_release_waits_until_it_is_over)
{
    struct resource resource = { .allocate_in_release = true };
    assert_limit_passed(run_task(run_with, &resource, &limited));
    assert_true(resource.used);
    assert_int_equal(resource.released, 1);
}

TEST(a_task_that_fails_by_itself_releases_once)
{
    stint_options options = limited;
    options.on_interrupt = STINT_FAIL;
    struct resource resource = { .allocate_in_use = true };
    assert_limit_passed(run_task(run_with, &resource, &options));
    assert_int_equal(resource.released, 1);
}

TEST(missing_functions_are_refused)
{
    struct resource resource = { 0 };
    assert_int_equal(stint_with(NULL, use, release, &resource), EINVAL);
    assert_int_equal(stint_with(acquire, NULL, release, &resource), EINVAL);
    assert_int_equal(stint_with(acquire, use, NULL, &resource), EINVAL);
    assert_int_equal(resource.acquired, 0);
}

/* --- STINT_GUARD
 * --------------------------------------------------------------------------------------------------- */

static char order[8];
static char a[] = "a", b[] = "b", c[] = "c", d[] = "d", x[] = "x", y[] = "y", z[] = "z";

static void note(void *letter)
{
    strcat(order, letter);
}

static int leave_blocks_in_different_ways(void *unused, void **value)
{
    (void)unused;
    (void)value;
    for (int i = 0; i < 2; i++) {
        STINT_GUARD(note, i == 0 ? a : b);
        if (i == 1)
            break;
    }
    STINT_GUARD(note, c);
    STINT_GUARD(note, d);
    return 0;
}

TEST(a_guard_runs_at_the_end_of_its_block_newest_first)
{
    order[0] = '\0';
    assert_ok(run_task(leave_blocks_in_different_ways, NULL, NULL));
    assert_string_equal(order, "abdc");
    order[0] = '\0';
    assert_int_equal(leave_blocks_in_different_ways(NULL, NULL), 0);
    assert_string_equal(order, "abdc");
}

static int be_interrupted_in_a_block(void *unused, void **value)
{
    (void)unused;
    (void)value;
    STINT_GUARD(note, x);
    {
        STINT_GUARD(note, y);
    }
    STINT_GUARD(note, z);
    allocate_beyond_the_limit();
    return 0;
}

TEST(a_guard_runs_once_at_an_interrupt)
{
    for (int mode = STINT_JUMP; mode <= STINT_UNWIND; mode++) {
        stint_options options = limited;
        options.on_interrupt = (stint_on_interrupt)mode;
        order[0] = '\0';
        assert_limit_passed(run_task(be_interrupted_in_a_block, NULL, &options));
        assert_string_equal(order, "yzx");
    }
}

TEST_MAIN()
