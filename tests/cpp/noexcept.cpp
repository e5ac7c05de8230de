/* SPDX-License-Identifier: MIT
 *
 * operator new that must fail where no exception may be thrown: the task ends, and not the process. */
#include "trail.h"

#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

namespace
{

const stint_on_interrupt modes[] = { STINT_JUMP, STINT_FAIL, STINT_UNWIND };

/* Most of what it allocates is allocated in the C++ runtime's own code. */
void grow()
{
    std::vector<std::string> lines;
    for (;;)
        lines.push_back(std::string(1000, 'x'));
}

void grow_one_string()
{
    std::string line;
    for (;;)
        line += "0123456789";
}

NOINLINE void in_noexcept(void (*function)()) noexcept
{
    function();
}

void in_inlined_noexcept(void (*function)())
{
    auto inlined = [&]() noexcept { function(); };
    inlined();
}

void in_destructor(void (*function)())
{
    struct Calls {
        void (*function)();
        ~Calls()
        {
            function();
        }
    } calls{ function };
}

void in_destructor_while_throwing(void (*function)())
{
    struct Calls {
        void (*function)();
        ~Calls()
        {
            function();
        }
    } calls{ function };
    throw std::runtime_error("x");
}

void behind_a_block_for_another_type(void (*function)())
{
    in_noexcept([] {}); /* one of each */
    struct Inner {
        static void call(void (*function)()) noexcept
        {
            try {
                function();
            } catch (std::logic_error &) {
                note('W');
            }
        }
    };
    Inner::call(function);
}

TEST(the_task_ends)
{
    void (*const places[])(void (*)()) = { in_noexcept, in_inlined_noexcept, in_destructor,
                                           in_destructor_while_throwing, behind_a_block_for_another_type };
    void (*const functions[])() = { grow, grow_one_string, spend_new, spend_array };
    for (auto mode : modes) {
        for (auto place : places) {
            for (auto function : functions) {
                stint_options options = limited(1 << 20);
                options.on_interrupt = mode;
                auto outcome = run(options, [place, function] {
                    GUARD(guard, 'g');
                    place(function);
                    note('W');
                });
                assert_stopped(outcome, "g");
                assert_int_equal(outcome.status, STINT_ERROR);
            }
        }
    }
}

struct Thread {
    bool joined = true;
    ~Thread()
    {
        if (!joined)
            std::terminate();
    }
};

/* Where somebody catches it, it is thrown. */
TEST(a_block_inside_catches_it)
{
    struct Typed {
        static void call() noexcept
        {
            try {
                Thread thread;
                Mark mark('2');
                spend_new();
            } catch (std::logic_error &) {
                note('W');
            } catch (std::exception &) {
                note('3');
            }
        }
    };
    struct All {
        static void call() noexcept
        {
            try {
                Thread thread;
                Mark mark('4');
                auto shared = std::make_shared<int>(1);
                spend_new();
            } catch (std::logic_error &) {
                note('W');
            } catch (...) {
                note('5');
            }
        }
    };
    struct Inner {
        static void call() noexcept
        {
            try {
                grow();
            } catch (std::bad_alloc &) {
                note('1');
            }
        }
    };
    stint_options options = limited();
    options.on_interrupt = STINT_FAIL;
    auto outcome = run(options, [] { Inner::call(); });
    assert_stopped(outcome, "1");
    outcome = run(options, [] { Typed::call(); });
    assert_stopped(outcome, "23");
    outcome = run(options, [] { All::call(); });
    assert_stopped(outcome, "45");
}

/* Destructors on the way out of a function that lets exceptions through. */
TEST(nobody_in_its_way_catches_it)
{
    struct Passes {
        static void call()
        {
            Thread thread;
            Mark mark('1');
            try {
                Mark inner('2');
                auto shared = std::make_shared<int>(1);
                spend_new();
            } catch (std::logic_error &) {
                note('W');
            }
        }
    };
    stint_options options = limited();
    options.on_interrupt = STINT_FAIL;
    auto outcome = run(options, [] {
        try {
            Passes::call();
        } catch (std::bad_alloc &) {
            note('3');
        }
    });
    assert_stopped(outcome, "213");
}

std::mutex held;

NOINLINE void allocate_with_lock() noexcept
{
    std::lock_guard<std::mutex> lock(held);
    std::vector<std::string> lines;
    for (int i = 0; i < 10000; i++)
        lines.push_back(std::string(1000, 'x'));
    note('1');
}

NOINLINE void allocate_with_lock_around_a_block() noexcept
{
    std::lock_guard<std::mutex> lock(held);
    try {
        for (int i = 0; i < 10000; i++)
            sink = ::operator new(1000);
    } catch (std::logic_error &) {
        note('W');
    } catch (std::range_error &) {
        note('W');
    }
    note('1');
}

struct Quiet {
    Quiet()
    {
    }
    NOINLINE ~Quiet()
    {
        sink = nullptr;
    }
};

/* Destructors run before it shows that nobody catches it; those that are inlined have branches of their own. */
NOINLINE void allocate_with_lock_around_a_block_with_objects() noexcept
{
    std::lock_guard<std::mutex> lock(held);
    try {
        Quiet quiet;
        std::vector<std::string> lines;
        auto shared = std::make_shared<int>(1);
        for (int i = 0; i < 10000; i++)
            sink = ::operator new(1000);
        lines.emplace_back("x");
    } catch (std::logic_error &) {
        note('W');
    } catch (std::range_error &) {
        note('W');
    }
    note('1');
}

NOINLINE void allocate_with_lock_inlined_around_a_block_with_objects()
{
    Quiet outer;
    auto inlined = []() noexcept {
        std::unique_lock<std::mutex> lock(held);
        try {
            Quiet quiet;
            for (int i = 0; i < 10000; i++)
                sink = ::operator new(1000);
        } catch (std::logic_error &) {
            note('W');
        }
        note('1');
    };
    inlined();
}

NOINLINE void allocate_with_lock_in_destructor()
{
    struct Holds {
        std::lock_guard<std::mutex> lock{ held };
        ~Holds()
        {
            for (int i = 0; i < 10000; i++)
                sink = ::operator new(1000);
            note('1');
        }
    } holds;
}

/* Where the compiler would have the lock stay locked, the code may neither be told nor be left: it goes on. So gcc's,
 * and clang's from version 17 or so on; before, clang's catches what is thrown, gives the lock back and only then ends
 * the process: there it is the task that ends. */
bool ended_early(const char *otherwise)
{
    assert_true(strcmp(trail, "") == 0 || strcmp(trail, otherwise) == 0);
    return trail[0] == '\0';
}

TEST(a_lock_is_given_back_in_any_case)
{
    void (*const places[])() = { allocate_with_lock, allocate_with_lock_around_a_block,
                                 allocate_with_lock_around_a_block_with_objects,
                                 allocate_with_lock_inlined_around_a_block_with_objects,
                                 allocate_with_lock_in_destructor };
    for (auto place : places) {
        for (auto mode : modes) {
            stint_options options = limited();
            options.on_interrupt = mode;
            auto outcome = run(options, [mode, place] {
                place();
                try {
                    sink = ::operator new(1);
                    note('W');
                } catch (std::bad_alloc &) {
                    note(mode == STINT_FAIL ? '2' : 'W');
                }
            });
            assert_stopped(outcome, ended_early(mode == STINT_FAIL ? "12" : "1") ? "" : trail);
            assert_true(held.try_lock());
            held.unlock();
        }
    }
}

TEST(an_inner_scope_is_left_for_its_outer_one)
{
    for (auto mode : modes) {
        stint_options options = limited(1 << 20);
        options.on_interrupt = mode;
        auto outcome = run(options, [] {
            GUARD(guard, 'o');
            stint_options inner = limited(0);
            inner.on_interrupt = STINT_UNWIND;
            stint_outcome ended;
            std::function<void()> function = [] {
                GUARD(inner_guard, 'i');
                in_noexcept(grow);
            };
            stint_run(call, &function, &inner, &ended);
            note(ended.reason == STINT_REASON_OUTER ? '1' : 'W');
        });
        assert_stopped(outcome, mode == STINT_FAIL ? "i1" : "io");
    }
}

/* An interrupt that waits for a better place looks for one at each allocation: up to the frame that is in its way. The
 * farther that is, the more of the grace a look takes, and the fewer there are. */
unsigned long allocations;

NOINLINE void go_on_allocating()
{
    while (void *block = stint_malloc(64)) {
        stint_free(block);
        allocations += stint_is_interrupted();
    }
}

NOINLINE void go_on_allocating_near() noexcept
{
    go_on_allocating();
    note(' ');
}

NOINLINE int go_down(int frames, void (*end)())
{
    volatile int left = frames;
    if (frames > 0)
        return go_down(frames - 1, end) + left;
    end();
    return 0;
}

NOINLINE void go_down_from_far() noexcept
{
    sink = &allocations + go_down(20000, go_on_allocating);
}

TEST(deep_below_the_scope_it_is_left_soon)
{
    for (auto mode : modes) {
        stint_options options = limited(10000);
        options.on_interrupt = mode;
        allocations = 0;
        auto outcome = run(options, [] { sink = &allocations + go_down(20000, go_on_allocating_near); });
        assert_string_equal(stint_reason_name(outcome.reason), "allocation-limit");
        if (allocations > 1024)
            fail_msg("near, mode %d: %lu allocations", mode, allocations);
        allocations = 0;
        outcome = run(options, go_down_from_far);
        assert_string_equal(stint_reason_name(outcome.reason), "allocation-limit");
        if (allocations > 16)
            fail_msg("far, mode %d: %lu allocations", mode, allocations);
    }
}

} // namespace

TEST_MAIN()
