/* SPDX-License-Identifier: MIT
 *
 * A scope is measured when its memory may have changed enough, and not once more for each scope inside it. */
#include "support.h"

#include "alloc/platform/thread.h"

static int allocate_a_little(void *unused, void **value)
{
    (void)unused;
    (void)value;
    for (int i = 0; i < 100; i++)
        stint_free(keep(stint_malloc(100)));
    return 0;
}

struct found {
    unsigned inner;
    unsigned overdue; /* checks that the scope had before it, when an inner one had ended */
};

static int run_inner_scopes(void *argument, void **value)
{
    (void)value;
    struct found *found = argument;
    for (unsigned i = 0; i < 100; i++) {
        stint_outcome outcome;
        if (stint_run(allocate_a_little, NULL, NULL, &outcome) != 0 || outcome.status != STINT_OK)
            return 1;
        found->inner++;
        found->overdue += sti_thread_metered->used > sti_thread_metered->memory_check;
    }
    return 0;
}

TEST(what_an_inner_scope_measured_is_not_measured_again_by_the_next)
{
    struct found found = { 0, 0 };
    assert_ok(run_task(run_inner_scopes, &found, NULL));
    assert_int_equal(found.inner, 100);
    assert_int_equal(found.overdue, 0);
}

TEST_MAIN()
