/* SPDX-License-Identifier: MIT
 *
 * Shared by the tests of STINT_UNWIND: a trail of letters, the objects that leave them, and ways to interrupt a task.
 *
 * A failing assertion jumps, and would leave a scope open: tasks leave a trail, and the test asserts later. Capital
 * letters are reached only by code that should have been left. */
#ifndef TESTS_CPP_TRAIL_H
#define TESTS_CPP_TRAIL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cxxabi.h>
#include <exception>
#include <functional>
#include <new>

#include <stint/stint.h>

#include "../test.h"

#define NOINLINE __attribute__((noinline))
#ifndef LEAVES_BY
#define LEAVES_BY STINT_UNWIND
#endif
#define GUARD(name, letter)                                                                                            \
    static char name##_letter = letter;                                                                                \
    stint_guard name;                                                                                                  \
    stint_guard_push(&name, note_letter, &name##_letter)

inline char trail[256];

inline void note(char what)
{
    size_t length = strlen(trail);
    if (length < sizeof trail - 1) {
        trail[length] = what;
        trail[length + 1] = '\0';
    }
}

inline void note_letter(void *letter)
{
    note(*static_cast<char *>(letter));
}

struct Mark {
    char letter;
    explicit Mark(char letter_) : letter(letter_)
    {
    }
    Mark(const Mark &) = delete;
    Mark &operator=(const Mark &) = delete;
    NOINLINE ~Mark()
    {
        note(letter);
    }
};

inline void *volatile sink;

/* Blocks that stay: until the limit is passed. */
NOINLINE inline void spend_new()
{
    for (;;)
        sink = ::operator new(1000);
}

NOINLINE inline void spend_array()
{
    for (;;)
        sink = new char[1000];
}

NOINLINE inline void spend_checkpoint()
{
    for (;;)
        stint_checkpoint();
}

NOINLINE inline void spend_mask()
{
    for (;;) {
        stint_mask();
        stint_unmask();
    }
}

inline int call(void *function, void **)
{
    (*static_cast<std::function<void()> *>(function))();
    return 0;
}

inline stint_options limited(size_t allocation = 100000)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = allocation;
    options.on_interrupt = LEAVES_BY;
    return options;
}

inline stint_outcome run(const stint_options &options, std::function<void()> function)
{
    trail[0] = '\0';
    stint_outcome outcome;
    assert_int_equal(stint_run(call, &function, &options, &outcome), 0);
    return outcome;
}

inline void assert_stopped(const stint_outcome &outcome, const char *expected)
{
    assert_string_equal(trail, expected);
    assert_string_equal(stint_reason_name(outcome.reason), "allocation-limit");
    assert_int_equal(std::uncaught_exceptions(), 0);
    assert_null(abi::__cxa_get_globals() == nullptr ? nullptr : *reinterpret_cast<void **>(abi::__cxa_get_globals()));
}

template <class F> NOINLINE void in_frame(char letter, F inner)
{
    Mark mark(letter);
    inner();
    note('F');
}

#endif
