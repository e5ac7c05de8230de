/* SPDX-License-Identifier: MIT
 *
 * operator new that must fail where no exception may be thrown: the task ends, and not the process. */
#include "trail.h"

#include <memory>
#include <mutex>
#include <signal.h>
#include <stdexcept>
#include <stdlib.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace
{

const stint_on_interrupt modes[] = { STINT_JUMP, STINT_FAIL, LEAVES_BY };

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
    };
    try {
        Calls calls{ function };
        throw std::runtime_error("x");
    } catch (std::runtime_error &) {
        note('W');
    }
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
                    try {
                        place(function);
                    } catch (std::runtime_error &) {
                        note('W');
                    }
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

/* The exception is thrown if code inside catches it. */
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

TEST(an_inner_scope_is_left_for_its_outer_one)
{
    for (auto mode : modes) {
        stint_options options = limited(1 << 20);
        options.on_interrupt = mode;
        auto outcome = run(options, [] {
            GUARD(guard, 'o');
            stint_options inner = limited(0);
            inner.on_interrupt = LEAVES_BY;
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

/* How a process ends that does this. */
int end_of(void (*function)())
{
    pid_t child = fork();
    if (child == 0) {
        std::set_terminate([] { _exit(7); });
        function();
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void refused(std::function<void()> function)
{
    stint_options options = limited();
    options.on_interrupt = STINT_FAIL;
    run(options, function);
}

TEST(with_a_lock_held_the_process_ends)
{
    auto locks = [] {
        refused([] {
            static std::mutex mutex;
            std::lock_guard<std::mutex> lock(mutex);
            in_noexcept(spend_new);
        });
    };
    assert_int_equal(end_of(locks), 7);
}

int spends(const void *, const void *) noexcept
{
    spend_new();
    return 0;
}

TEST(with_a_frame_of_libc_further_out_the_process_ends)
{
    auto sorts = [] {
        refused([] {
            int numbers[] = { 2, 1 };
            qsort(numbers, 2, sizeof numbers[0], spends);
        });
    };
    assert_int_equal(end_of(sorts), 7);
}

TEST(the_handler_that_the_program_sets_is_called)
{
    assert_int_equal(end_of([] { std::terminate(); }), 7);
    assert_int_equal(end_of([] { in_noexcept([] { throw 1; }); }), 7);
    auto sets_two = [] {
        std::terminate_handler first = [] { _exit(8); };
        std::set_terminate(first);
        if (std::set_terminate([] { _exit(9); }) == first)
            std::terminate();
    };
    assert_int_equal(end_of(sets_two), 9);
    auto sets_what_it_gets = [] {
        std::set_terminate(std::get_terminate());
        std::terminate();
    };
    int end = end_of(sets_what_it_gets);
    assert_true(end == -SIGABRT || end == 7);
}

/* An interrupt that waits for a better place looks for one at each allocation, not far. */
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
        if (allocations > 1024)
            fail_msg("far, mode %d: %lu allocations", mode, allocations);
    }
}

} // namespace

TEST_MAIN()
