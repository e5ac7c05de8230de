/* SPDX-License-Identifier: MIT
 *
 * Recursions that call the C++ runtime at each level, and whose stack ends there. */
#include <errno.h>
#include <stint/stint.h>

#include <fstream>

#include "test.h"

static volatile bool never;
static std::ostream *out;

static __attribute__((noinline)) int print(volatile int depth)
{
    *out << depth << ' ' << depth / 3.0 << '\n';
    return never ? depth : print(depth + 1) + depth;
}

static int print_for_ever(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return print(0) > 0 ? EIO : EINVAL;
}

static stint_outcome run_task(stint_fn *function, const stint_options *options)
{
    stint_outcome outcome;
    assert_int_equal(stint_run(function, nullptr, options, &outcome), 0);
    return outcome;
}

TEST(a_recursion_that_prints_to_a_stream_ends)
{
    static const stint_on_interrupt ways[] = { STINT_JUMP, STINT_FAIL, STINT_UNWIND };
    for (stint_on_interrupt way : ways) {
        std::ofstream nowhere("/dev/null");
        out = &nowhere;
        stint_options options = STINT_OPTIONS_INIT;
        options.on_interrupt = way;
        stint_outcome outcome = run_task(print_for_ever, &options);
        assert_int_equal(outcome.status, STINT_ERROR);
        assert_int_equal(outcome.reason, STINT_REASON_STACK);
        nowhere << "and it can be used";
        assert_true(nowhere.good());
    }
}

static thread_local int levels_left;

static __attribute__((noinline)) int throw_at_each_level(volatile int depth)
{
    try {
        if (depth >= 0)
            throw depth;
    } catch (int) {
        levels_left++;
    }
    return never ? depth : throw_at_each_level(depth + 1) + depth;
}

static int throw_for_ever(void *arg, void **value)
{
    (void)arg;
    (void)value;
    return throw_at_each_level(0) > 0 ? EIO : EINVAL;
}

TEST(a_recursion_that_throws_at_each_level_ends)
{
    stint_outcome outcome = run_task(throw_for_ever, nullptr);
    assert_int_equal(outcome.status, STINT_ERROR);
    assert_int_equal(outcome.reason, STINT_REASON_STACK);
    assert_true(levels_left > 100);
}

TEST_MAIN()
