/* SPDX-License-Identifier: MIT
 *
 * An interrupt leaves the thread with the floating-point modes that it had before the task. */
#include "support.h"

#include <fenv.h>

static int change_modes_and_allocate(void *unused, void **value)
{
    (void)unused;
    (void)value;
    fesetround(FE_UPWARD);
    for (int i = 0; i < 1000000; i++)
        stint_free(keep(stint_malloc(100)));
    return 0;
}

TEST(a_task_that_is_interrupted_leaves_the_rounding_of_its_thread_alone)
{
    const stint_options options = { .size = sizeof(stint_options), .budget = { .allocation = 64 * KIB } };
    fesetround(FE_DOWNWARD);
    assert_limit_passed(run_task(change_modes_and_allocate, NULL, &options));
    int rounding = fegetround();
    fesetround(FE_TONEAREST);
    assert_int_equal(rounding, FE_DOWNWARD);
}

TEST(so_does_one_that_a_signal_interrupts)
{
    const stint_options options = { .size = sizeof(stint_options),
                                    .budget = { .wall_ns = 20000000 },
                                    .preemptible = true };
    fesetround(FE_DOWNWARD);
    stint_outcome outcome = run_task(loop_for_ever, NULL, &options);
    int rounding = fegetround();
    fesetround(FE_TONEAREST);
    assert_int_equal(outcome.reason, STINT_REASON_DEADLINE);
    assert_int_equal(rounding, FE_DOWNWARD);
}

TEST_MAIN()
