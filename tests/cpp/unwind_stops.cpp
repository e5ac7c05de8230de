/* SPDX-License-Identifier: MIT
 *
 * STINT_UNWIND: where an interrupt waits for a better place, and where it goes on by a jump. Never does the process
 * end. */
#include <mutex>
#include <stdexcept>
#include <stdlib.h>
#include <thread>

#include "frames.h"
#include "trail.h"

namespace
{

/* The C library's, which the compiler knows not to throw; the block that follows may. */
NOINLINE void spend_plain_malloc()
{
    Mark mark('P');
    for (size_t i = 0; i < 3000; i++) {
        sink = malloc(1000);
        if (sink == nullptr)
            break;
    }
    sink = ::operator new(1);
}

/* Of calls that throw nothing the tables say nothing. The rare call lies behind them, so with optimisation they are in
 * the range of its resume point pad and the first one's, which destroys what is gone by then. */
volatile bool rare;
volatile size_t blocks;

NOINLINE void may_throw()
{
    if (rare)
        throw 1;
}

#define ALLOCATES_BETWEEN(name, ...)                                                                                   \
    NOINLINE void name()                                                                                               \
    {                                                                                                                  \
        for (int turn = 0; turn < 3; turn++) {                                                                         \
            {                                                                                                          \
                Mark mark('1');                                                                                        \
                may_throw();                                                                                           \
                if (__builtin_expect(rare, 0)) {                                                                       \
                    note('R');                                                                                         \
                    may_throw();                                                                                       \
                }                                                                                                      \
            }                                                                                                          \
            for (size_t i = 0; i < blocks; i++)                                                                        \
                __VA_ARGS__;                                                                                           \
            note('b');                                                                                                 \
        }                                                                                                              \
    }

const char text[1000] = { 'x' };

/* A function that calls nothing else throws nothing either: gcc and clang find that out. */
NOINLINE void only_allocate()
{
    sink = malloc(1000);
}

ALLOCATES_BETWEEN(by_malloc, sink = malloc(1000))
ALLOCATES_BETWEEN(by_function, only_allocate())
ALLOCATES_BETWEEN(by_calloc, sink = calloc(10, 100))
ALLOCATES_BETWEEN(by_realloc, sink = realloc(nullptr, 1000))
ALLOCATES_BETWEEN(by_aligned_alloc, sink = aligned_alloc(64, 1024))
ALLOCATES_BETWEEN(by_strndup, sink = strndup(text, 1000))

void (*const allocate_between[])() = { by_malloc, by_function, by_calloc, by_realloc, by_aligned_alloc, by_strndup };

stint_options limited_within(void (*allocate)())
{
    return limited(allocate == by_strndup ? 200 : 100000);
}

TEST(what_was_destroyed_before_a_malloc_is_not_destroyed_again)
{
    for (auto allocate : allocate_between) {
        blocks = 100;
        auto outcome = run(limited_within(allocate), [=] {
            Mark outer('2');
            allocate();
            spend_new();
        });
        assert_int_equal(outcome.reason, STINT_REASON_ALLOCATION_LIMIT);
        assert_null(strstr(trail, "11"));
        assert_non_null(strstr(trail, "2"));
    }
}

TEST(not_even_where_nothing_but_mallocs_follow)
{
    for (auto allocate : allocate_between) {
        blocks = SIZE_MAX;
        auto outcome = run(limited_within(allocate), [=] { allocate(); });
        assert_stopped(outcome, "1");
    }
}

TEST(code_that_is_preempted_is_left_by_a_jump)
{
    stint_options options = limited(0);
    options.budget.wall_ns = 20000000;
    options.preemptible = true;
    static volatile unsigned long turns;
    auto outcome = run(options, [] {
        GUARD(guard, 'g');
        in_frame('1', [] {
            for (;;)
                turns = turns + 1;
        });
    });
    assert_string_equal(trail, "g");
    assert_int_equal(outcome.reason, STINT_REASON_DEADLINE);
}

TEST(a_destructor_that_spends_the_grace_is_left_by_a_jump)
{
    struct Endless {
        ~Endless()
        {
            Mark mark('M');
            spend_new();
        }
    };
    auto outcome = run(limited(), [] {
        GUARD(guard, 'g');
        in_frame('O', [] {
            Endless endless;
            in_frame('1', spend_new);
        });
    });
    assert_stopped(outcome, "1g");
}

TEST(a_destructor_that_terminates_is_left_by_a_jump)
{
    auto outcome = run(limited(), [] {
        GUARD(guard, 'g');
        in_frame('O', [] {
            std::thread never_joined([] {});
            stint_guard join;
            stint_guard_push(
                &join, [](void *thread) { static_cast<std::thread *>(thread)->join(); }, &never_joined);
            in_frame('1', spend_new);
        });
    });
    assert_stopped(outcome, "1g");
}

/* A destructor that allocates while an exception propagates. */
TEST(an_exception_on_its_way_arrives_first)
{
    struct Allocates {
        ~Allocates()
        {
            sink = ::operator new(200000);
            note('1');
        }
    };
    const stint_on_interrupt modes[] = { STINT_JUMP, STINT_UNWIND };
    for (auto mode : modes) {
        stint_options options = limited();
        options.on_interrupt = mode;
        auto outcome = run(options, [] {
            try {
                Allocates allocates;
                throw std::runtime_error("x");
            } catch (std::exception &caught) {
                note(strcmp(caught.what(), "x") == 0 ? '2' : 'W');
            }
            spend_new();
        });
        assert_stopped(outcome, "12");
        assert_true(outcome.usage.deferred > 0);
    }
}

NOINLINE void does_not_throw(void (*inner)()) noexcept
{
    Mark mark('N');
    in_frame('2', inner);
    note('N');
}

TEST(a_noexcept_frame_ends_in_a_jump_and_not_in_terminate)
{
    auto outcome = run(limited(), [] {
        GUARD(guard, 'g');
        in_frame('O', [] { does_not_throw([] { in_frame('1', spend_new); }); });
    });
    /* Whether a destructor in the noexcept function itself still runs is the compiler's choice. */
    if (trail[2] == 'N')
        memmove(trail + 2, trail + 3, strlen(trail + 3) + 1);
    assert_stopped(outcome, "12g");
}

NOINLINE void throw_again()
{
    throw;
}

NOINLINE void throws_again_where_it_may_not() noexcept
{
    try {
        in_frame('1', spend_new);
    } catch (...) {
        note('2');
        throw_again();
    }
}

TEST(a_catch_block_that_is_left_by_a_jump_holds_nothing)
{
    auto outcome = run(limited(10000000), [] {
        in_frame('4', [] {
            std::function<void()> task = throws_again_where_it_may_not;
            stint_options options = limited();
            stint_outcome nested;
            stint_run(call, &task, &options, &nested);
            note(nested.reason == STINT_REASON_ALLOCATION_LIMIT ? '3' : 'N');
            spend_new();
        });
    });
    assert_stopped(outcome, "1234");
    assert_int_equal(outcome.usage.deferred, 0);
}

TEST(a_noexcept_frame_that_only_makes_checkpoints_is_left_too)
{
    stint_options options = limited(0);
    options.budget.wall_ns = 1000000;
    auto outcome = run(options, [] {
        GUARD(guard, 'g');
        in_frame('O', [] { does_not_throw([] { in_frame('1', spend_checkpoint); }); });
    });
    if (trail[2] == 'N')
        memmove(trail + 2, trail + 3, strlen(trail + 3) + 1);
    assert_string_equal(trail, "12g");
    assert_int_equal(outcome.reason, STINT_REASON_DEADLINE);
}

/* A destructor lets no exception through, so where it allocates is the last place that is unwound. */
TEST(a_destructor_that_is_interrupted_ends_in_a_jump)
{
    struct Allocates {
        ~Allocates()
        {
            Mark mark('1');
            in_frame('2', spend_new);
        }
    };
    auto outcome = run(limited(), [] {
        GUARD(guard, 'g');
        in_frame('O', [] { Allocates allocates; });
    });
    assert_non_null(strchr(trail, '2'));
    assert_null(strchr(trail, 'O'));
    assert_int_equal(trail[strlen(trail) - 1], 'g');
    assert_int_equal(outcome.reason, STINT_REASON_ALLOCATION_LIMIT);
}

TEST(an_interrupt_in_malloc_waits_for_a_call_that_may_throw)
{
    auto outcome = run(limited(), [] {
        in_frame('3', [] {
            Mark mark('2');
            sink = malloc(200000);
            note(sink != nullptr ? '1' : 'M');
            spend_new();
        });
    });
    assert_stopped(outcome, "123");
}

TEST(code_that_only_calls_malloc_is_left_by_a_jump)
{
    auto outcome = run(limited(), [] {
        GUARD(guard, 'g');
        in_frame('O', spend_plain_malloc);
    });
    assert_stopped(outcome, "g");
}

TEST(cleanup_attributes_run_where_the_frame_has_tables)
{
    auto outcome = run(limited(), [] { in_frame('3', [] { frame_with_tables([] { in_frame('1', spend_new); }); }); });
    assert_stopped(outcome, "1c3");
    outcome = run(limited(), [] { in_frame('3', [] { frame_without_tables([] { in_frame('1', spend_new); }); }); });
    assert_stopped(outcome, "13");
    outcome = run(limited(), [] {
        frame_with_tables([] {});
        frame_without_tables([] {});
    });
    assert_string_equal(trail, "dd");
    assert_int_equal(outcome.status, STINT_OK);
}

TEST(an_interrupt_waits_for_the_end_of_a_frame_that_cannot_be_unwound)
{
    auto outcome = run(limited(), [] {
        in_frame('2', [] {
            frame_without_any([] {
                while ((sink = stint_malloc(1000)) != nullptr)
                    ;
                note('1');
            });
            spend_new();
        });
    });
    assert_stopped(outcome, "1d2");
    assert_true(outcome.usage.deferred > 500);
}

TEST(an_interrupt_waits_for_a_mutex_and_then_unwinds)
{
    static std::mutex mutex;
    auto outcome = run(limited(), [] {
        in_frame('2', [] {
            {
                std::lock_guard<std::mutex> lock(mutex);
                sink = ::operator new(200000);
                note('1');
            }
            spend_new();
        });
    });
    assert_stopped(outcome, "12");
    assert_true(mutex.try_lock());
    mutex.unlock();
}

int initialised;

NOINLINE int initialise()
{
    sink = ::operator new(200000);
    return ++initialised;
}

NOINLINE int once()
{
    static int value = initialise();
    return value;
}

TEST(an_interrupt_waits_for_a_static_initialiser)
{
    auto outcome = run(limited(), [] {
        in_frame('2', [] {
            if (once() == 1)
                note('1');
            spend_new();
        });
    });
    assert_stopped(outcome, "12");
    assert_int_equal(once(), 1);
    assert_int_equal(initialised, 1);
}

} // namespace

void unwind_note(int what)
{
    note(static_cast<char>(what));
}

TEST_MAIN()
