/* SPDX-License-Identifier: MIT
 *
 * STINT_UNWIND: what runs when a task is left frame by frame, and what happens where it cannot be.
 *
 * A failing assertion jumps, and would leave a scope open: tasks leave a trail of letters, and the test asserts
 * afterwards. Capital letters are reached only by code that should have been left. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern "C" {
#include <cmocka.h>
}
#include <cxxabi.h>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <stint/stint.h>

#include "frames.h"

#define NOINLINE __attribute__((noinline))
#define GUARD(name, letter)                                                                                            \
    static char name##_letter = letter;                                                                                \
    stint_guard name;                                                                                                  \
    stint_guard_push(&name, note_letter, &name##_letter)

namespace
{

char trail[256];

void note(char what)
{
    size_t length = strlen(trail);
    if (length < sizeof trail - 1) {
        trail[length] = what;
        trail[length + 1] = '\0';
    }
}

void note_letter(void *letter)
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

void *volatile sink;

/* Blocks that nobody frees: until the limit is passed. */
NOINLINE void spend_new()
{
    for (;;)
        sink = ::operator new(1000);
}

NOINLINE void spend_array()
{
    for (;;)
        sink = new char[1000];
}

NOINLINE void spend_malloc()
{
    for (;;)
        sink = stint_malloc(1000);
}

NOINLINE void spend_checkpoint()
{
    for (;;)
        stint_checkpoint();
}

NOINLINE void spend_mask()
{
    for (;;) {
        stint_mask();
        stint_unmask();
    }
}

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

int call(void *function, void **)
{
    (*static_cast<std::function<void()> *>(function))();
    return 0;
}

stint_options limited(size_t allocation = 100000)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = allocation;
    options.on_interrupt = STINT_UNWIND;
    return options;
}

stint_outcome run(const stint_options &options, std::function<void()> function)
{
    trail[0] = '\0';
    stint_outcome outcome;
    assert_int_equal(stint_run(call, &function, &options, &outcome), 0);
    return outcome;
}

void assert_stopped(const stint_outcome &outcome, const char *expected)
{
    assert_string_equal(trail, expected);
    assert_string_equal(stint_reason_name(outcome.reason), "alloc-limit");
    assert_int_equal(std::uncaught_exceptions(), 0);
    assert_null(abi::__cxa_get_globals() == nullptr ? nullptr : *reinterpret_cast<void **>(abi::__cxa_get_globals()));
}

template <class F> NOINLINE void in_frame(char letter, F inner)
{
    Mark mark(letter);
    inner();
    note('F');
}

void destructors_run_once_and_innermost_first(void **)
{
    void (*const spenders[])() = { spend_new, spend_array, spend_malloc };
    for (auto spend : spenders) {
        auto outcome = run(limited(), [=] {
            Mark outer('3');
            in_frame('2', [=] { in_frame('1', spend); });
        });
        assert_stopped(outcome, "123");
        assert_true(outcome.usage.allocated <= 100000);
    }
}

void destructors_run_at_sample_points_that_allocate_nothing(void **)
{
    void (*const spenders[])() = { spend_checkpoint, spend_mask };
    for (auto spend : spenders) {
        stint_token *token;
        assert_int_equal(stint_token_create(&token, nullptr), 0);
        stint_options options = limited(0);
        options.token = token;
        auto outcome = run(options, [=] {
            in_frame('2', [=] {
                in_frame('1', [=] {
                    stint_token_set(token);
                    spend();
                });
            });
        });
        stint_token_release(token);
        assert_string_equal(trail, "12");
        assert_int_equal(outcome.reason, STINT_REASON_TOKEN);
    }
}

void destructors_run_when_the_task_is_preempted_at_a_sample_point_only(void **)
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

void destructors_know_that_they_are_unwound(void **)
{
    static int seen[2];
    struct Asks {
        int at;
        ~Asks()
        {
            seen[at] = std::uncaught_exceptions() * 10 + (stint_interrupted() ? 1 : 0);
        }
    };
    auto outcome = run(limited(), [] {
        in_frame('2', [] {
            Asks asks{ 1 };
            try {
                Asks asks_inside{ 0 };
                spend_new();
            } catch (...) {
                note('c');
                throw;
            }
        });
    });
    assert_stopped(outcome, "c2");
    assert_int_equal(seen[0], 11);
    assert_int_equal(seen[1], 11);
}

void destructors_may_allocate_within_the_grace(void **)
{
    struct Allocates {
        ~Allocates()
        {
            std::string text(10000, 'x');
            note(text.size() == 10000 ? 'a' : 'A');
        }
    };
    auto outcome = run(limited(), [] {
        Mark outer('2');
        Allocates allocates;
        spend_new();
    });
    assert_stopped(outcome, "a2");
}

void a_destructor_that_spends_the_grace_is_left_by_a_jump(void **)
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

void a_destructor_that_terminates_is_left_by_a_jump(void **)
{
    auto outcome = run(limited(), [] {
        GUARD(guard, 'g');
        in_frame('O', [] {
            std::thread never_joined([] {});
            stint_guard join;
            stint_guard_push(&join, [](void *thread) { static_cast<std::thread *>(thread)->join(); }, &never_joined);
            in_frame('1', spend_new);
        });
    });
    assert_stopped(outcome, "1g");
}

NOINLINE void guarded()
{
    GUARD(older, '4');
    GUARD(newer, '3');
    Mark mark('2');
    in_frame('1', spend_new);
    stint_guard_pop(&newer, true);
    stint_guard_pop(&older, true);
}

void guards_run_when_their_frames_destructors_have(void **)
{
    auto outcome = run(limited(), [] {
        Mark outermost('6');
        GUARD(outer, '7');
        in_frame('5', guarded);
    });
    assert_stopped(outcome, "1234567");
}

void hooks_of_frames_that_are_gone_are_not_called(void **)
{
    auto outcome = run(limited(), [] {
        static auto fired = [](void *) { note('h'); };
        in_frame('2', [] {
            stint_hook hook;
            stint_hook_push(&hook, fired, nullptr);
            in_frame('1', spend_new);
        });
    });
    assert_stopped(outcome, "h12");
}

void catch_blocks_of_types_are_passed_by(void **)
{
    auto outcome = run(limited(), [] {
        in_frame('2', [] {
            try {
                in_frame('1', spend_new);
            } catch (std::exception &) {
                note('E');
            } catch (int) {
                note('I');
            }
            note('N');
        });
    });
    assert_stopped(outcome, "12");
}

void catch_all_blocks_run_and_throw_again(void **)
{
    auto task = [] {
        in_frame('5', [] {
            try {
                in_frame('3', [] {
                    try {
                        in_frame('1', spend_new);
                    } catch (...) {
                        note('2');
                        throw;
                    }
                });
            } catch (abi::__forced_unwind &) {
                try {
                    throw 1;
                } catch (int) {
                    note('4');
                }
                throw;
            }
        });
    };
    /* Twice: nothing of the first may be held in the way of the second. */
    for (int i = 0; i < 2; i++)
        assert_stopped(run(limited(), task), "12345");
}

void an_unwind_that_is_caught_and_kept_comes_again(void **)
{
    auto outcome = run(limited(), [] {
        in_frame('5', [] {
            try {
                in_frame('1', spend_new);
            } catch (...) {
                note('2');
            }
            note(std::uncaught_exceptions() == 0 ? '3' : 'U');
            in_frame('4', spend_new);
        });
    });
    assert_stopped(outcome, "12345");
}

void an_unwind_that_is_made_another_exception_comes_again(void **)
{
    auto outcome = run(limited(), [] {
        in_frame('5', [] {
            try {
                try {
                    in_frame('1', spend_new);
                } catch (...) {
                    note('2');
                    throw std::runtime_error("stopped");
                }
            } catch (std::runtime_error &) {
                note(std::uncaught_exceptions() == 0 ? '3' : 'U');
            }
            in_frame('4', spend_checkpoint);
        });
    });
    assert_stopped(outcome, "12345");
}

void a_scope_inside_a_catch_block_unwinds_through_catch_all_blocks(void **)
{
    std::string before;
    char seen[sizeof trail] = "";
    try {
        throw std::runtime_error("before");
    } catch (std::exception &) {
        run(limited(), [] {
            try {
                in_frame('1', spend_new);
            } catch (...) {
                note('2');
                throw;
            }
        });
        memcpy(seen, trail, sizeof trail);
        try {
            throw;
        } catch (std::exception &again) {
            before = again.what();
        }
    }
    assert_string_equal(seen, "12");
    assert_string_equal(before.c_str(), "before");
    assert_int_equal(std::uncaught_exceptions(), 0);
}

void exceptions_of_the_task_work_as_ever(void **)
{
    stint_outcome outcome = run(limited(), [] {
        for (int i = 0; i < 100; i++) {
            try {
                in_frame('1', [] { throw std::runtime_error("x"); });
            } catch (std::exception &) {
                note('2');
            }
            trail[0] = '\0';
        }
        note('e');
    });
    assert_string_equal(trail, "e");
    assert_int_equal(outcome.status, STINT_OK);
}

/* What a destructor allocates while an exception is on its way. */
void an_exception_on_its_way_arrives_first(void **)
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

void a_noexcept_frame_ends_in_a_jump_and_not_in_terminate(void **)
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

void a_noexcept_frame_that_only_makes_checkpoints_is_left_too(void **)
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

/* gcc's tables tell: the interrupt waits for the end of a destructor, and of what calls malloc itself. */
void an_interrupt_waits_for_a_better_place(void **)
{
#ifdef __clang__
    skip();
#endif
    struct Allocates {
        ~Allocates()
        {
            sink = ::operator new(200000);
            note('1');
        }
    };
    auto outcome = run(limited(), [] {
        in_frame('3', [] {
            {
                Allocates allocates;
            }
            Mark mark('2');
            spend_new();
        });
    });
    assert_stopped(outcome, "123");

    outcome = run(limited(), [] {
        in_frame('3', [] {
            Mark mark('2');
            sink = malloc(200000);
            note(sink != nullptr ? '1' : 'M');
            spend_new();
        });
    });
    assert_stopped(outcome, "123");
}

void code_that_only_calls_malloc_is_left_by_a_jump(void **)
{
    auto outcome = run(limited(), [] {
        GUARD(guard, 'g');
        in_frame('O', spend_plain_malloc);
    });
    assert_stopped(outcome, "g");
}

void cleanup_attributes_run_where_the_frame_has_tables(void **)
{
    auto outcome = run(limited(), [] {
        in_frame('3', [] { frame_with_tables([] { in_frame('1', spend_new); }); });
    });
    assert_stopped(outcome, "1c3");
    outcome = run(limited(), [] {
        in_frame('3', [] { frame_without_tables([] { in_frame('1', spend_new); }); });
    });
    assert_stopped(outcome, "13");
    outcome = run(limited(), [] {
        frame_with_tables([] {});
        frame_without_tables([] {});
    });
    assert_string_equal(trail, "dd");
    assert_int_equal(outcome.status, STINT_OK);
}

void an_interrupt_waits_for_a_mutex_and_then_unwinds(void **)
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

void an_interrupt_waits_for_a_static_initialiser(void **)
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

/* The inner scope is left in its own mode, and then the outer one in its. */
void nested_scopes_are_left_each_in_its_own_mode(void **)
{
    const stint_on_interrupt modes[] = { STINT_JUMP, STINT_UNWIND, STINT_FAIL };
    for (auto outer : modes) {
        for (auto inner : modes) {
            static stint_options inner_options;
            inner_options = STINT_OPTIONS_INIT;
            inner_options.on_interrupt = inner;
            stint_options options = limited();
            options.on_interrupt = outer;
            auto outcome = run(options, [] {
                GUARD(guard, 'g');
                in_frame('o', [] {
                    std::function<void()> task = [] {
                        in_frame('i', [] {
                            try {
                                spend_new();
                            } catch (std::bad_alloc &) {
                                note('b');
                            }
                        });
                    };
                    stint_outcome nested;
                    stint_run(call, &task, &inner_options, &nested);
                    note(nested.reason == STINT_REASON_OUTER ? 'n' : 'N');
                });
                stint_guard_pop(&guard, true);
            });
            std::string expected = inner == STINT_JUMP ? "" : inner == STINT_UNWIND ? "i" : "bFi";
            expected += outer == STINT_JUMP ? "g" : outer == STINT_UNWIND ? "og" : "nFog";
            assert_stopped(outcome, expected.c_str());
        }
    }
}

void an_inner_limit_unwinds_the_inner_scope_only(void **)
{
    auto outcome = run(limited(10000000), [] {
        in_frame('2', [] {
            std::function<void()> task = [] { in_frame('1', spend_new); };
            stint_options options = limited();
            stint_outcome nested;
            stint_run(call, &task, &options, &nested);
            note(nested.reason == STINT_REASON_ALLOCATION_LIMIT ? 'n' : 'N');
            sink = ::operator new(1000);
        });
    });
    assert_string_equal(trail, "1nF2");
    assert_int_equal(outcome.status, STINT_OK);
}

void a_destructor_may_run_a_scope_of_its_own(void **)
{
    struct Runs {
        ~Runs()
        {
            std::function<void()> task = [] {
                in_frame('4', [] {
                    try {
                        in_frame('2', spend_new);
                    } catch (...) {
                        note('3');
                        throw;
                    }
                });
            };
            stint_options options = limited(50000);
            stint_outcome nested;
            stint_run(call, &task, &options, &nested);
            note(nested.reason == STINT_REASON_ALLOCATION_LIMIT ? '5' : 'N');
        }
    };
    stint_options options = limited(0);
    options.budget.wall_ns = 1000000;
    auto outcome = run(options, [] {
        in_frame('6', [] {
            Runs runs;
            in_frame('1', spend_checkpoint);
        });
    });
    assert_string_equal(trail, "123456");
    assert_int_equal(outcome.reason, STINT_REASON_DEADLINE);
}

size_t resident()
{
    char text[128] = "";
    int file = open("/proc/self/statm", O_RDONLY);
    assert_true(file >= 0 && read(file, text, sizeof text - 1) > 0);
    close(file);
    return strtoul(strchr(text, ' '), nullptr, 10) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

void ten_thousand_unwinds_leave_nothing_behind(void **)
{
    auto once_more = [] {
        return run(limited(), [] {
            std::vector<std::string> kept;
            try {
                for (;;)
                    kept.emplace_back(100, 'x');
            } catch (...) {
                note('1');
                throw;
            }
        });
    };
    for (int i = 0; i < 1000; i++)
        assert_stopped(once_more(), "1");
    size_t before = resident();
    for (int i = 0; i < 10000; i++)
        assert_stopped(once_more(), "1");
    assert_true(resident() < before + (size_t(4) << 20));
}

} // namespace

void unwind_note(int what)
{
    note(static_cast<char>(what));
}

int main()
{
    const CMUnitTest tests[] = {
        cmocka_unit_test(destructors_run_once_and_innermost_first),
        cmocka_unit_test(destructors_run_at_sample_points_that_allocate_nothing),
        cmocka_unit_test(destructors_run_when_the_task_is_preempted_at_a_sample_point_only),
        cmocka_unit_test(destructors_know_that_they_are_unwound),
        cmocka_unit_test(destructors_may_allocate_within_the_grace),
        cmocka_unit_test(a_destructor_that_spends_the_grace_is_left_by_a_jump),
        cmocka_unit_test(a_destructor_that_terminates_is_left_by_a_jump),
        cmocka_unit_test(guards_run_when_their_frames_destructors_have),
        cmocka_unit_test(hooks_of_frames_that_are_gone_are_not_called),
        cmocka_unit_test(catch_blocks_of_types_are_passed_by),
        cmocka_unit_test(catch_all_blocks_run_and_throw_again),
        cmocka_unit_test(an_unwind_that_is_caught_and_kept_comes_again),
        cmocka_unit_test(an_unwind_that_is_made_another_exception_comes_again),
        cmocka_unit_test(a_scope_inside_a_catch_block_unwinds_through_catch_all_blocks),
        cmocka_unit_test(exceptions_of_the_task_work_as_ever),
        cmocka_unit_test(an_exception_on_its_way_arrives_first),
        cmocka_unit_test(a_noexcept_frame_ends_in_a_jump_and_not_in_terminate),
        cmocka_unit_test(a_noexcept_frame_that_only_makes_checkpoints_is_left_too),
        cmocka_unit_test(an_interrupt_waits_for_a_better_place),
        cmocka_unit_test(code_that_only_calls_malloc_is_left_by_a_jump),
        cmocka_unit_test(cleanup_attributes_run_where_the_frame_has_tables),
        cmocka_unit_test(an_interrupt_waits_for_a_mutex_and_then_unwinds),
        cmocka_unit_test(an_interrupt_waits_for_a_static_initialiser),
        cmocka_unit_test(nested_scopes_are_left_each_in_its_own_mode),
        cmocka_unit_test(an_inner_limit_unwinds_the_inner_scope_only),
        cmocka_unit_test(a_destructor_may_run_a_scope_of_its_own),
        cmocka_unit_test(ten_thousand_unwinds_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
