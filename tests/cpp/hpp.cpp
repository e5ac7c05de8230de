/* SPDX-License-Identifier: MIT
 *
 * stint.hpp: values, exceptions and interrupts come out of tasks as promised, and nothing is left behind.
 *
 * Tasks note what they see, and the test asserts afterwards. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "../test.h"
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <vector>

#include <stint/stint.hpp>

using namespace std::chrono_literals;

static_assert(std::is_move_constructible_v<stint::Pool> && !std::is_copy_constructible_v<stint::Pool>);
static_assert(std::is_move_assignable_v<stint::Future<int>> && !std::is_copy_constructible_v<stint::Future<int>>);
static_assert(std::is_move_constructible_v<stint::Token> && !std::is_copy_constructible_v<stint::Token>);
static_assert(std::is_nothrow_destructible_v<stint::Future<std::string>>);

/* The macros are constants, with the library's own defaults. */
static constexpr stint_options plain_options = STINT_OPTIONS_INIT;
static_assert(plain_options.size == sizeof plain_options && plain_options.data == nullptr);
static constexpr stint_profile_options profile_options = STINT_PROFILE_OPTIONS_INIT;
static_assert(profile_options.size == sizeof profile_options && profile_options.rate == 0 &&
              profile_options.interval == 512 << 10 && profile_options.callstack_depth == 64);
static constexpr stint_memprof_options memprof_options = STINT_MEMPROF_OPTIONS_INIT;
static_assert(memprof_options.size == sizeof memprof_options && memprof_options.rate == 0 &&
              memprof_options.interval == 512 << 10 && memprof_options.callstack_depth == 64 &&
              memprof_options.tracker.alloc == nullptr);

namespace
{

constexpr size_t MIB = size_t(1) << 20;

stint_pool_options two_workers()
{
    stint_pool_options options = STINT_POOL_OPTIONS_INIT;
    options.workers = 2;
    return options;
}

/* Counts itself. */
std::atomic<int> alive;

struct Counted {
    Counted()
    {
        alive++;
    }
    Counted(const Counted &)
    {
        alive++;
    }
    Counted(Counted &&) noexcept
    {
        alive++;
    }
    Counted &operator=(const Counted &) = default;
    ~Counted()
    {
        alive--;
    }
};

void *volatile sink;

[[noreturn]] void spend()
{
    for (;;)
        sink = ::operator new(1000);
}

template <class F> stint_reason reason_of(F function)
{
    try {
        function();
    } catch (stint::failure &failure) {
        return failure.reason();
    }
    return STINT_REASON_NONE;
}

TEST(values_come_out_of_tasks)
{
    stint::Pool pool(two_workers());
    auto numbers = pool.submit([] { return std::vector<int>(1000, 7); }).get();
    assert_int_equal(numbers.size(), 1000);
    numbers.resize(100000, 7);
    assert_string_equal(pool.submit([] { return std::string(100, 'x'); }).get().c_str(), std::string(100, 'x').c_str());
    assert_int_equal(*pool.submit([] { return std::make_unique<int>(5); }).get(), 5);

    int variable = 1;
    pool.submit([&]() -> int & { return variable; }).get() = 2;
    assert_int_equal(variable, 2);
    pool.submit([&] { variable = 3; }).get();
    assert_int_equal(variable, 3);
    assert_int_equal(stint::run([] { return 4; }).get(), 4);
    assert_int_equal(stint::run([&]() -> int & { return variable; }).get(), 3);
    stint::run([] {}).get();
}

TEST(an_outcome_tells_without_throwing)
{
    auto good = stint::run([] { return std::string("value"); });
    assert_true(static_cast<bool>(good));
    assert_int_equal(good.reason(), STINT_REASON_NONE);
    assert_true(good.usage().wall_ns > 0);
    assert_string_equal(good.get().c_str(), "value");

    auto bad = stint::run([]() -> int { throw std::runtime_error("no"); });
    assert_false(static_cast<bool>(bad));
    assert_int_equal(bad.status(), STINT_ERROR);
    assert_int_equal(bad.reason(), STINT_REASON_EXCEPTION);
    assert_int_equal(bad.code(), -1);
    assert_string_equal(bad.message(), "no");
}

TEST(an_uncaught_exception_becomes_an_error_with_its_message)
{
    stint::Pool pool(two_workers());
    std::string message;
    int code = 0;
    try {
        pool.submit([] {
                std::string built = "no such file: ";
                built += std::string(100, 'x');
                throw std::runtime_error(built);
            })
            .get();
    } catch (stint::error &error) {
        message = error.what();
        code = error.code();
    }
    assert_string_equal(message.c_str(), ("no such file: " + std::string(100, 'x')).c_str());
    assert_int_equal(code, -1);

    auto failed = stint::run([] { throw std::system_error(EPERM, std::generic_category(), "open"); });
    assert_int_equal(failed.code(), EPERM);
    assert_non_null(strstr(failed.message(), "open"));
    assert_string_equal(stint::run([] { throw 5; }).message(), "an exception that is no std::exception");
    auto longest = stint::run([] { throw std::runtime_error(std::string(1000, 'x')); });
    assert_string_equal(longest.message(), std::string(255, 'x').c_str());
    auto nested = stint::run([] { stint::run([] { throw std::runtime_error("inner"); }).get(); });
    assert_string_equal(nested.message(), "inner");
}

TEST(a_limit_is_the_reason_whatever_was_thrown_because_of_it)
{
    const stint_on_interrupt modes[] = { STINT_JUMP, STINT_FAIL, STINT_UNWIND };
    for (auto mode : modes) {
        auto outcome = stint::run(spend, stint::Options().memory(MIB).on_interrupt(mode));
        assert_int_equal(outcome.reason(), STINT_REASON_MEMORY_LIMIT);
        assert_int_equal(outcome.code(), ENOMEM);
        assert_string_equal(outcome.message(), "memory-limit");
    }
    auto replaced = stint::run(
        [] {
            try {
                spend();
            } catch (...) {
                throw std::runtime_error("something went wrong");
            }
        },
        stint::Options().allocation(MIB));
    assert_int_equal(replaced.reason(), STINT_REASON_ALLOCATION_LIMIT);

    auto absurd = stint::run([] { sink = ::operator new(size_t(1) << 60); });
    assert_int_equal(absurd.reason(), STINT_REASON_EXCEPTION);
    assert_int_equal(absurd.code(), ENOMEM);
}

TEST(tokens_and_deadlines_stop_tasks)
{
    stint::Pool pool(two_workers());
    stint::Token token;
    stint::Token child = token.child();
    auto endless = [] {
        Counted counted;
        for (;;)
            stint_checkpoint();
    };
    auto future = pool.submit(endless, stint::Options().token(child));
    assert_false(future.wait_for(5ms));
    token.set();
    bool threw_cancelled = false;
    try {
        future.get();
    } catch (stint::cancelled &cancelled) {
        threw_cancelled = cancelled.reason() == STINT_REASON_TOKEN && cancelled.code() == ECANCELED;
    }
    assert_true(threw_cancelled);
    assert_true(child.is_set());
    assert_false(future.valid());

    assert_int_equal(reason_of([&] { pool.submit(endless, stint::Options().wall(300ms)).get(); }),
                     STINT_REASON_DEADLINE);
    auto third = pool.submit(endless);
    third.cancel();
    third.wait();
    assert_true(third.ready());
    assert_int_equal(third.outcome().reason(), STINT_REASON_TOKEN);
    assert_int_equal(alive, 0);
}

TEST(a_future_that_goes_cancels_its_task_and_waits)
{
    stint::Pool pool(two_workers());
    std::atomic<bool> started = false;
    std::atomic<bool> ended = false;
    {
        struct Ends {
            std::atomic<bool> &flag;
            ~Ends()
            {
                flag = true;
            }
        };
        auto future = pool.submit([&] {
            Ends ends{ ended };
            started = true;
            for (;;)
                stint_checkpoint();
        });
        while (!started)
            ;
        stint::Future<void> moved(std::move(future));
        assert_false(future.valid());
        assert_true(moved.valid());
        future = std::move(moved);
        assert_true(future.valid());
    }
    assert_true(ended);
}

TEST(values_that_nobody_takes_are_destroyed)
{
    stint::Pool pool(two_workers());
    {
        std::vector<stint::Future<std::vector<Counted>>> futures;
        for (int i = 0; i < 100; i++)
            futures.push_back(pool.submit([] { return std::vector<Counted>(10); }));
        for (auto &future : futures)
            future.wait();
        assert_int_equal(alive, 1000);
        auto taken = futures[0].outcome();
        auto value = taken.get();
        assert_int_equal(value.size(), 10);
    }
    assert_int_equal(alive, 0);
}

/* The callable's memory when the task starts is the submitter's; its growth in the task goes with the task. */
TEST(a_callable_that_grows_in_its_task_goes_with_it)
{
    stint::Pool pool(two_workers());
    for (int i = 0; i < 200; i++) {
        std::vector<std::string> names(3, std::string(100, 'x'));
        auto future = pool.submit(
            [names, counted = Counted()]() mutable {
                for (;;)
                    names.emplace_back(100, 'y');
            },
            stint::Options().memory(MIB));
        assert_int_equal(future.outcome().reason(), STINT_REASON_MEMORY_LIMIT);
        assert_int_equal(names.size(), 3);
    }
    assert_int_equal(alive, 0);
}

/* --- Budgets that change, and warnings --- */

TEST(a_running_task_s_budget_can_be_changed_and_its_usage_read)
{
    stint::Pool pool(two_workers());
    std::atomic<bool> is_grown = false;
    auto future = pool.submit(
        [&] {
            std::vector<std::string> names(1000, std::string(1000, 'x'));
            is_grown = true;
            for (;;)
                stint_checkpoint();
        },
        stint::Options().memory(64 * MIB));
    while (!is_grown)
        std::this_thread::yield();
    while (future.usage().allocated < 1000 * 1000)
        std::this_thread::yield();
    stint_budget tight = {};
    tight.memory = MIB / 2;
    assert_true(future.set_budget(tight));
    while (!future.ready())
        std::this_thread::yield();
    assert_false(future.set_budget(tight));
    assert_int_equal(future.outcome().reason(), STINT_REASON_MEMORY_LIMIT);
}

static std::atomic<int> warnings;
static std::atomic<int> account_warnings;

static void note_warning(const stint_warning *warning, void *)
{
    if (warning->reason == STINT_REASON_MEMORY_LIMIT)
        warnings++;
    else if (warning->reason == STINT_REASON_ACCOUNT)
        account_warnings++;
}

TEST(a_task_and_its_account_are_warned_of_and_the_task_goes_on)
{
    assert_int_equal(stint_warnings_set(note_warning, nullptr), 0);
    stint::Pool pool(two_workers());
    stint::Account account(stint::AccountLimits().memory(8 * MIB).warn(50));
    auto future = pool.submit(
        [] {
            std::string text(6 * MIB, 'x');
            __asm__ volatile("" : : "r"(text.data()) : "memory"); /* gcc 16 makes none otherwise */
            return text.size();
        },
        stint::Options().memory(8 * MIB).warn(50).account(account));
    assert_int_equal(future.get(), 6 * MIB);
    for (int i = 0; i < 5000 && (warnings == 0 || account_warnings == 0); i++)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    assert_int_equal(warnings, 1);
    assert_int_equal(account_warnings, 1);
    assert_int_equal(stint_warnings_set(nullptr, nullptr), 0);
}

TEST(a_task_that_is_stopped_takes_those_it_submitted_with_it)
{
    stint::Pool pool(two_workers());
    stint::Token token;
    std::atomic<bool> inner_started = false;
    auto outer = pool.submit(
        [&] {
            auto inner = pool.submit([&] {
                Counted counted;
                inner_started = true;
                for (;;)
                    stint_checkpoint();
            });
            for (;;)
                stint_checkpoint();
        },
        stint::Options().token(token));
    while (!inner_started)
        ;
    token.set();
    assert_int_equal(outer.outcome().reason(), STINT_REASON_TOKEN);
    assert_int_equal(alive, 0);
}

TEST(a_guard_runs_once_in_its_place)
{
    static std::string order;
    struct Last {
        ~Last()
        {
            order += '3';
        }
    };
    struct First {
        ~First()
        {
            order += '1';
        }
    };
    order.reserve(100);
    auto task = [](bool stop) {
        Last last;
        stint::Guard guard([] { order += '2'; });
        First first;
        if (stop)
            spend();
    };
    order.clear();
    task(false);
    assert_string_equal(order.c_str(), "123");
    order.clear();
    assert_true(static_cast<bool>(stint::run([&] { task(false); })));
    assert_string_equal(order.c_str(), "123");
    order.clear();
    stint::run([&] { task(true); }, stint::Options().allocation(MIB));
    assert_string_equal(order.c_str(), "123");
    order.clear();
    stint::run([&] { task(true); }, stint::Options().allocation(MIB).on_interrupt(STINT_JUMP));
    assert_string_equal(order.c_str(), "2");
    order.clear();
    auto dismisses = [] {
        stint::Guard guard([] { order += 'D'; });
        guard.dismiss();
    };
    dismisses();
    stint::run(dismisses);
    assert_string_equal(order.c_str(), "");
}

TEST(a_mask_makes_interrupts_wait_and_its_end_delivers_them)
{
    static bool finished;
    static bool passed;
    auto outcome = stint::run(
        [] {
            Counted counted;
            {
                stint::Mask mask;
                sink = ::operator new(200000);
                finished = true;
            }
            passed = true;
        },
        stint::Options().allocation(100000));
    assert_int_equal(outcome.reason(), STINT_REASON_ALLOCATION_LIMIT);
    assert_true(finished);
    assert_false(passed);
    assert_int_equal(alive, 0);
}

template <class F> int system_error_of(F function)
{
    try {
        function();
    } catch (std::system_error &error) {
        return error.code().value();
    }
    return 0;
}

TEST(callbacks_and_compounds_follow_futures)
{
    stint::Pool pool(two_workers());
    std::atomic<int> called(0);
    int before = alive;
    {
        auto one = pool.submit([] { return 1; });
        auto text = pool.submit([] { return std::string("two"); });
        one.then([counted = Counted(), &called](const stint_outcome &outcome) {
            called += outcome.status == STINT_OK ? 1 : 100;
        });
        stint::All all = stint::when_all(one, text);
        all.wait();
        assert_true(all.ready());
        text.then([&called](const stint_outcome &outcome) { called += outcome.status == STINT_OK ? 10 : 100; });
        assert_int_equal(one.get(), 1);
        assert_string_equal(text.get().c_str(), "two");
    }
    std::vector<stint::Future<int>> many;
    for (int i = 0; i < 10; i++)
        many.push_back(pool.submit([i] { return i; }));
    stint::Any any = stint::when_any(many);
    any.wait();
    assert_true(many[any.index()].ready());
    assert_int_equal(many[any.index()].get(), any.index());
    many.erase(many.begin() + static_cast<std::ptrdiff_t>(any.index()));
    assert_true(stint::when_all(many).wait_for(std::chrono::hours(1)));
    assert_int_equal(system_error_of([] { stint::when_any(std::vector<stint::Future<int>>()); }), EINVAL);
    assert_int_equal(system_error_of([] { stint::when_all(stint::Future<int>()); }), EINVAL);
    assert_int_equal(system_error_of([] { stint::Future<int>().then([](const stint_outcome &) {}); }), EINVAL);
    assert_true(pool.shutdown(STINT_SHUTDOWN_DRAIN)); /* callbacks may come after the event that they wait for */
    assert_int_equal(called, 11);
    assert_int_equal(alive, before);
}

/* Made in a task that is rolled back before it is called. */
TEST(a_callback_outlives_the_task_that_gave_it)
{
    stint::Pool pool(two_workers());
    std::atomic<bool> open(false);
    std::array<char, 100> seen = {};
    auto slow = pool.submit([&open] {
        while (!open)
            std::this_thread::yield();
    });
    auto giver = pool.submit([&slow, &seen] {
        std::array<char, 100> text;
        text.fill('x');
        slow.then([text, &seen](const stint_outcome &) { seen = text; });
        throw std::runtime_error("rolled back");
    });
    assert_true(giver.outcome().status() == STINT_ERROR);
    open = true;
    assert_true(pool.shutdown(STINT_SHUTDOWN_DRAIN));
    assert_int_equal(seen[99], 'x');
}

TEST(misuse_throws_system_errors)
{
    stint_pool_options options = two_workers();
    options.workers = 1000000;
    assert_int_equal(system_error_of([&] { stint::Pool pool(options); }), EINVAL);
    stint::Future<int> empty;
    assert_int_equal(system_error_of([&] { empty.get(); }), EINVAL);
    stint::Pool pool(two_workers());
    assert_true(pool.shutdown(STINT_SHUTDOWN_DRAIN));
    assert_true(pool.shutdown(STINT_SHUTDOWN_DRAIN, 1s));
    assert_int_equal(system_error_of([&] { static_cast<void>(pool.submit([] {})); }), ESHUTDOWN);
    assert_int_equal(pool.workers(), 2);
    stint::Pool moved(std::move(pool));
    assert_null(pool.handle());
    assert_non_null(moved.handle());
}

} // namespace

TEST_MAIN()
