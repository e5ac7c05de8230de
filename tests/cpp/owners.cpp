/* SPDX-License-Identifier: MIT
 *
 * stint.hpp: owners of futures, pools and values that go in unusual places and at unusual times. */
#include <stddef.h>
#include <stdint.h>

#include "../test.h"
#include <atomic>
#include <chrono>
#include <dirent.h>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <stint/stint.hpp>

using namespace std::chrono_literals;

static_assert(std::is_nothrow_destructible_v<stint::Future<std::string>>);

namespace
{

void await(const std::atomic<bool> &flag)
{
    while (!flag)
        std::this_thread::sleep_for(1ms);
}

int entries(const char *directory)
{
    int count = 0;
    DIR *listing = opendir(directory);
    while (readdir(listing) != nullptr)
        count++;
    closedir(listing);
    return count;
}

/* Seen before its function was called, or after. */
template <class T> bool is_too_late(const stint::Outcome<T> &outcome)
{
    return outcome.reason() == STINT_REASON_DEADLINE || outcome.reason() == STINT_REASON_EXPIRED;
}

/* Its task writes its value into a record long after its Future has gone. */
TEST(a_future_that_goes_in_a_callback_leaves_its_task_whole)
{
    stint::Pool pool(stint::PoolOptions().workers(2));
    auto shared = std::make_shared<int>(1);
    std::atomic<bool> started(false);
    std::atomic<bool> open(false);
    std::atomic<bool> gone(false);
    auto slow = pool.submit(
        [&started, &open, shared] {
            struct Value {
                std::string text;
                std::shared_ptr<int> shared;
            };
            stint::Mask mask;
            started = true;
            await(open);
            return Value{ std::string(100, 'x'), shared };
        },
        stint::Options().on_interrupt(STINT_FAIL));
    await(started);
    auto first = pool.submit([] {});
    using Slow = decltype(slow);
    first.then([kept = std::make_shared<Slow>(std::move(slow)), &gone](const stint_outcome &) mutable {
        kept.reset();
        gone = true;
    });
    await(gone);
    std::vector<std::string> others;
    for (size_t size = 200; size < 600; size += 8) {
        for (int i = 0; i < 16; i++)
            others.emplace_back(size, 'y');
    }
    open = true;
    assert_true(pool.shutdown(STINT_SHUTDOWN_DRAIN));
    for (const std::string &other : others)
        assert_true(other.find_first_not_of('y') == std::string::npos);
    assert_int_equal(shared.use_count(), 1);
}

TEST(a_future_may_go_in_its_own_task)
{
    stint::Pool pool(stint::PoolOptions().workers(1));
    stint::Future<std::string> own;
    std::atomic<bool> given(false);
    own = pool.submit([&] {
        await(given);
        own = stint::Future<std::string>();
        return std::string(100, 'x');
    });
    given = true;
    assert_true(pool.shutdown(STINT_SHUTDOWN_DRAIN));
}

/* The task has returned when its deadline is seen. */
TEST(a_value_that_comes_too_late_is_destroyed)
{
    struct Descriptor {
        int number;
        explicit Descriptor(int number_) : number(number_)
        {
        }
        Descriptor(Descriptor &&other) noexcept : number(std::exchange(other.number, -1))
        {
        }
        ~Descriptor()
        {
            if (number >= 0)
                close(number);
        }
    };
    struct Value {
        Descriptor descriptor;
        std::shared_ptr<int> shared;
        std::string text;
    };
    stint::Pool pool(stint::PoolOptions().workers(2));
    auto shared = std::make_shared<int>(1);
    int before = entries("/proc/self/fd");
    int late = 0;
    for (int i = 0; i < 100; i++) {
        auto future = pool.submit(
            [&shared] {
                Value value{ Descriptor(dup(0)), shared, std::string(100, 'x') };
                std::this_thread::sleep_for(3ms);
                return value;
            },
            stint::Options().wall(1ms));
        auto outcome = future.outcome();
        late += is_too_late(outcome);
        auto here = stint::run(
            [&shared] {
                Value value{ Descriptor(dup(0)), shared, std::string(100, 'x') };
                std::this_thread::sleep_for(2ms);
                return value;
            },
            stint::Options().wall(1ms));
        late += is_too_late(here);
    }
    assert_int_equal(late, 200);
    assert_int_equal(entries("/proc/self/fd"), before);
    assert_int_equal(shared.use_count(), 1);
}

TEST(a_time_that_is_up_is_no_time_without_limit)
{
    stint::Pool pool(stint::PoolOptions().workers(1));
    std::atomic<int> ran(0);
    const std::chrono::nanoseconds times[] = { 0ns, -1ns, std::chrono::nanoseconds::min() };
    for (auto time : times) {
        auto outcome = pool.submit([&] { ran++; }, stint::Options().wall(time)).outcome();
        assert_true(is_too_late(outcome));
        outcome = stint::run([&] { ran++; }, stint::Options().wall(time));
        assert_true(is_too_late(outcome));
    }
    auto past = std::chrono::steady_clock::now() - 1s;
    assert_true(is_too_late(stint::run([&] { ran++; }, stint::Options().deadline(past))));
    assert_int_equal(ran, 0);
    assert_int_equal(stint::run([&] { ran++; }, stint::Options().wall(std::chrono::hours::max())).status(), STINT_OK);
    assert_int_equal(ran, 1);
    auto slow = pool.submit([] { std::this_thread::sleep_for(20ms); });
    assert_false(slow.wait_for(-1s));
    slow.wait();
}

TEST(a_refused_submission_leaves_the_function_as_it_was)
{
    stint::Pool pool(stint::PoolOptions().workers(1).queue_capacity(2));
    std::atomic<bool> open(false);
    std::atomic<bool> started(false);
    auto holds = pool.submit([&] {
        started = true;
        await(open);
    });
    await(started);
    auto one = pool.submit([] {});
    auto two = pool.submit([] {});
    std::function<int()> job = [owned = std::make_shared<int>(42)] { return *owned; };
    auto lambda = [owned = std::make_unique<int>(43)] { return *owned; };
    int refused = 0;
    for (int i = 0; i < 3; i++) {
        try {
            static_cast<void>(pool.submit(std::move(job)));
        } catch (std::system_error &error) {
            refused += error.code().value() == EAGAIN;
        }
        try {
            static_cast<void>(pool.submit_wait(std::move(lambda), 1ms));
        } catch (std::system_error &error) {
            refused += error.code().value() == ETIMEDOUT;
        }
    }
    assert_int_equal(refused, 6);
    open = true;
    stint::when_all(holds, one, two).wait();
    assert_int_equal(pool.submit(std::move(job)).get(), 42);
    assert_int_equal(pool.submit_wait(std::move(lambda), 10s).get(), 43);
}

TEST(a_detached_task_runs_to_its_end)
{
    stint::Pool pool(stint::PoolOptions().workers(2));
    auto shared = std::make_shared<int>(1);
    std::atomic<int> ran(0);
    for (int i = 0; i < 100; i++) {
        pool.submit([&ran, shared] {
                usleep(100);
                ran++;
                return shared;
            })
            .detach();
    }
    stint::Future<int>().detach();
    assert_true(pool.shutdown(STINT_SHUTDOWN_DRAIN));
    assert_int_equal(ran, 100);
    assert_int_equal(shared.use_count(), 1);
}

TEST(the_last_reference_to_a_pool_may_go_in_a_callback_or_a_task)
{
    int before = entries("/proc/self/task");
    for (int i = 0; i < 20; i++) {
        auto pool = std::make_shared<stint::Pool>(stint::PoolOptions().workers(2));
        std::atomic<bool> open(false);
        auto future = pool->submit([&open] { await(open); });
        future.then([pool](const stint_outcome &) mutable { pool.reset(); });
        pool.reset();
        open = true;
        future.wait();
        pool = std::make_shared<stint::Pool>(stint::PoolOptions().workers(2));
        auto own = std::make_unique<std::shared_ptr<stint::Pool>>(pool);
        future = pool->submit([&open, kept = own.get()] {
            await(open);
            kept->reset();
        });
        pool.reset();
        future.wait();
    }
    for (int i = 0; i < 10000 && entries("/proc/self/task") > before; i++)
        std::this_thread::sleep_for(1ms);
    assert_int_equal(entries("/proc/self/task"), before);
}

TEST(accounts_completions_and_options_do_what_their_c_forms_do)
{
    stint::Pool pool(stint::PoolOptions().workers(2).substitutes(4).name("owners").pinned(false));
    stint::Account tenant(stint::AccountLimits().name("tenant").memory(size_t(64) << 20));
    stint::Account request = tenant.child(stint::AccountLimits().allocation(1 << 20).running(1));
    assert_string_equal(tenant.name(), "tenant");
    auto grows = [] {
        std::vector<std::string> lines;
        for (;;)
            lines.emplace_back(1000, 'x');
    };
    auto outcome =
        pool.submit(grows, stint::Options().account(request).priority(STINT_PRIORITY_HIGH).name("grows")).outcome();
    assert_int_equal(outcome.reason(), STINT_REASON_ACCOUNT);
    assert_true(request.usage().allocated > 0);
    assert_int_equal(tenant.usage().started, 1);
    assert_int_equal(stint::run(
                         [] {
                             for (;;)
                                 stint_checkpoint();
                         },
                         stint::Options().cpu(5ms))
                         .reason(),
                     STINT_REASON_CPU);
    assert_int_equal(stint::run([] { throw 1; }, stint::Options().wipe().grace(1 << 16)).reason(),
                     STINT_REASON_EXCEPTION);

    stint::Completions queue;
    int seen = 0;
    std::vector<stint::Future<int>> futures;
    for (int i = 0; i < 10; i++) {
        futures.push_back(pool.submit([i] { return i; }));
        queue.add(futures.back(), &seen);
    }
    stint::when_all(futures).wait();
    while (seen < 10) {
        queue.drain([&](const stint_completion &completion) {
            *static_cast<int *>(completion.data) += completion.outcome.status == STINT_OK;
        });
    }
    assert_true(queue.fd() >= 0);
    stint::Token token;
    assert_true(token.fd() >= 0);
}

TEST(a_task_sees_itself_and_others_may_refer_to_it)
{
    stint::Pool pool;
    auto future = pool.submit(
        [&] {
            return stint::Pool::current() == pool.handle() && std::string("seen") == stint::this_task::name() &&
                   stint::this_task::left().allocation <= 1 << 20 && stint::this_task::used().committed == 0;
        },
        stint::Options().name("seen").allocation(1 << 20));
    stint::FutureReference reference(future);
    stint::FutureReference other = reference;
    reference.wait();
    reference = stint::FutureReference();
    assert_true(future.get());
    assert_true(other.ready() && other.wait_for(std::chrono::seconds(0)));
    assert_null(stint::Pool::current());
    assert_null(stint::this_task::name());
}

} // namespace

TEST_MAIN()
