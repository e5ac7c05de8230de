/* SPDX-License-Identifier: MIT
 *
 * Each shape of code that an exception may not pass, or only as another one, as each compiler has it: an interrupt and
 * a refused operator new end the task there, and never the process. */
#include <stdexcept>
#include <stdlib.h>
#include <string>

#include "trail.h"

namespace
{

void (*spend)();
volatile int count;

NOINLINE void leave()
{
    Mark mark('i');
    spend();
    count = count + 1;
}

NOINLINE void in_noexcept() noexcept
{
    leave();
    count = count + 1;
}

NOINLINE void in_noexcept_with_object() noexcept
{
    Mark mark('n');
    leave();
    count = count + 1;
}

NOINLINE void in_noexcept_with_block() noexcept
{
    try {
        leave();
    } catch (int) {
        note('W');
    }
    count = count + 1;
}

inline __attribute__((always_inline)) void inlined() noexcept
{
    leave();
    count = count + 1;
}

NOINLINE void in_inlined_noexcept()
{
    Mark mark('n');
    inlined();
    count = count + 1;
}

inline __attribute__((always_inline)) void inlined_with_object() noexcept
{
    Mark mark('n');
    leave();
    count = count + 1;
}

NOINLINE void in_inlined_noexcept_in_block()
{
    Mark mark('n');
    try {
        inlined_with_object();
    } catch (int) {
        note('W');
    }
    count = count + 1;
}

struct Leaves {
    ~Leaves()
    {
        leave();
    }
};

NOINLINE void in_destructor()
{
    Leaves leaves;
    count = count + 1;
}

NOINLINE void in_empty_specification() throw()
{
    Mark mark('n');
    leave();
    count = count + 1;
}

NOINLINE void throw_again()
{
    throw;
}

NOINLINE void in_noexcept_that_throws_again() noexcept
{
    Mark mark('n');
    try {
        Mark inner('m');
        leave();
    } catch (...) {
        throw_again();
    }
}

NOINLINE void in_nothing()
{
    Mark mark('n');
    leave();
    count = count + 1;
}

NOINLINE void in_block_that_throws_again()
{
    Mark mark('n');
    try {
        leave();
    } catch (...) {
        throw;
    }
}

NOINLINE void in_block_that_keeps_it()
{
    Mark mark('n');
    try {
        leave();
    } catch (...) {
        count = count + 1;
    }
    leave();
}

NOINLINE void in_block_that_throws_another()
{
    Mark mark('n');
    try {
        leave();
    } catch (...) {
        throw 5;
    }
}

NOINLINE void in_block_that_catches_another()
{
    try {
        in_block_that_throws_another();
    } catch (int) {
        count = count + 1;
    }
    leave();
}

const struct {
    void (*function)();
    bool lets_through;
} shapes[] = {
    { in_noexcept, false },
    { in_noexcept_with_object, false },
    { in_noexcept_with_block, false },
    { in_inlined_noexcept, false },
    { in_inlined_noexcept_in_block, false },
    { in_destructor, false },
    { in_empty_specification, false },
    { in_noexcept_that_throws_again, false },
    { in_nothing, true },
    { in_block_that_throws_again, true },
    { in_block_that_keeps_it, true },
    { in_block_that_catches_another, true },
};

void run_shape(void (*function)(), stint_on_interrupt mode, size_t grace = 0)
{
    stint_options options = limited();
    options.on_interrupt = mode;
    options.grace = grace;
    auto outcome = run(options, [=] {
        GUARD(guard, 'g');
        try {
            Mark outer('o');
            function();
        } catch (std::bad_alloc &) {
            note('b');
        }
        stint_guard_pop(&guard, true);
    });
    assert_string_equal(stint_reason_name(outcome.reason), "allocation-limit");
    assert_int_equal(std::uncaught_exceptions(), 0);
    assert_true(std::current_exception() == nullptr);
    assert_int_equal(trail[strlen(trail) - 1], 'g');
}

TEST(an_unwind_runs_destructors_up_to_the_first_frame_that_lets_nothing_through)
{
    spend = spend_new;
    for (auto &shape : shapes) {
        run_shape(shape.function, STINT_UNWIND);
        assert_int_equal(trail[0], 'i');
        assert_int_equal(strchr(trail, 'o') != nullptr, shape.lets_through);
    }
}

TEST(a_refused_allocation_ends_the_task_where_its_exception_may_not_pass)
{
    const stint_on_interrupt modes[] = { STINT_FAIL, STINT_JUMP, STINT_UNWIND };
    void (*const spenders[])() = { spend_new, spend_array };
    for (auto mode : modes) {
        for (auto spender : spenders) {
            for (auto &shape : shapes) {
                spend = spender;
                run_shape(shape.function, mode);
                if (mode == STINT_FAIL)
                    assert_int_equal(strchr(trail, 'b') != nullptr, shape.lets_through);
            }
        }
    }
}

NOINLINE void fail_by_itself()
{
    while ((sink = malloc(1000)) != nullptr)
        ;
    throw std::bad_alloc();
}

NOINLINE void fail_by_another()
{
    try {
        spend_new();
    } catch (std::bad_alloc &) {
        throw std::runtime_error("no memory");
    }
}

TEST(what_the_code_throws_because_of_it_ends_the_task_too)
{
    void (*const spenders[])() = { fail_by_itself, fail_by_another };
    for (auto spender : spenders) {
        for (auto &shape : shapes) {
            spend = spender;
            if (!shape.lets_through)
                run_shape(shape.function, STINT_FAIL);
        }
    }
}

/* In code of the C++ runtime's, which is not left. */
NOINLINE void spend_string()
{
    std::string text;
    for (;;)
        text += "0123456789";
}

/* Where no memory is left for it, an exception lies in what the C++ runtime keeps for that, which is not much; nor is
 * there any that nobody destroys. */
TEST(a_thousand_of_them_leave_the_runtime_as_it_was)
{
    for (int i = 0; i < 1000; i++) {
        spend = spend_new;
        run_shape(in_noexcept_with_block, STINT_FAIL);
        spend = spend_string;
        run_shape(in_noexcept, STINT_JUMP, 1);
    }
    run_shape(in_nothing, STINT_FAIL, 1);
    assert_non_null(strchr(trail, 'b'));
    int caught = 0;
    try {
        throw std::runtime_error("x");
    } catch (std::exception &error) {
        caught = strcmp(error.what(), "x") == 0;
    }
    assert_int_equal(caught, 1);
}

} // namespace

TEST_MAIN()
