/* SPDX-License-Identifier: MIT
 *
 * An interrupt leaves the thread with the floating-point modes that it had before the task. */
#include "support.h"

#include <xmmintrin.h>

static int change_modes_and_allocate(void *unused, void **value)
{
    (void)unused;
    (void)value;
    _MM_SET_ROUNDING_MODE(_MM_ROUND_UP);
    for (int i = 0; i < 1000000; i++)
        stint_free(keep(stint_malloc(100)));
    return 0;
}

TEST(a_task_that_is_interrupted_leaves_the_rounding_of_its_thread_alone)
{
    const stint_options options = { .size = sizeof(stint_options), .budget = { .allocation = 64 * KIB } };
    _MM_SET_ROUNDING_MODE(_MM_ROUND_DOWN);
    assert_limit_passed(run_task(change_modes_and_allocate, NULL, &options));
    unsigned rounding = _MM_GET_ROUNDING_MODE();
    _MM_SET_ROUNDING_MODE(_MM_ROUND_NEAREST);
    assert_int_equal(rounding, _MM_ROUND_DOWN);
}

TEST(so_does_one_that_a_signal_interrupts)
{
    const stint_options options = { .size = sizeof(stint_options),
                                    .budget = { .wall_ns = 20000000 },
                                    .preemptible = true };
    _MM_SET_ROUNDING_MODE(_MM_ROUND_DOWN);
    stint_outcome outcome = run_task(loop_for_ever, NULL, &options);
    unsigned rounding = _MM_GET_ROUNDING_MODE();
    _MM_SET_ROUNDING_MODE(_MM_ROUND_NEAREST);
    assert_int_equal(outcome.reason, STINT_REASON_DEADLINE);
    assert_int_equal(rounding, _MM_ROUND_DOWN);
}

TEST_MAIN()
