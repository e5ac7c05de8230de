/* SPDX-License-Identifier: MIT
 *
 * stint.hpp: tasks that run later, in turn or together, and what goes with them: series, continuations, serial queues,
 * groups, contexts, payloads, completions, and pools that are left to their tasks. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "../test.h"
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <stint/stint.hpp>

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace
{

/* The code of what it throws. */
template <class F> int code_of(F function)
{
    try {
        function();
    } catch (const std::system_error &error) {
        return error.code().value();
    } catch (const stint::failure &failure) {
        return failure.code();
    }
    return 0;
}

TEST(a_task_starts_at_its_time_and_has_a_value)
{
    stint::Pool pool(stint::PoolOptions().workers(1));
    auto due = Clock::now() + 20ms;
    auto started = pool.submit_at(due, [] { return Clock::now(); });
    auto wall = pool.submit_at(std::chrono::system_clock::now() - 1h, [] { return std::string(100, 'x'); });
    auto after = pool.submit_after(5ms, [] { return std::make_unique<int>(7); });
    assert_int_equal(wall.get().size(), 100);
    assert_int_equal(*after.get(), 7);
    assert_true(started.get() >= due);
    auto never = pool.submit_after(1000h, [] { return 1; });
    never.cancel();
    assert_int_equal(never.outcome().reason(), STINT_REASON_TOKEN);
    assert_int_equal(pool.submit_after(
                             1ms, [] { return 1; }, stint::Options().wall(0s))
                         .outcome()
                         .status(),
                     STINT_ERROR);
}

TEST(a_series_calls_a_copy_each_time_until_it_says_no)
{
    stint::Pool pool(stint::PoolOptions().workers(2));
    int turns = 0;
    int grown = 0;
    auto series = pool.submit_every(Clock::now(), 1ms, [&turns, &grown, own = std::vector<int>()]() mutable {
        own.push_back(1);
        grown = static_cast<int>(own.size());
        return ++turns < 5;
    });
    series.get();
    assert_int_equal(turns, 5);
    assert_int_equal(grown, 1);

    auto fails = pool.submit_every(1ms, [] { throw std::runtime_error("enough"); });
    auto outcome = fails.outcome();
    assert_int_equal(outcome.reason(), STINT_REASON_EXCEPTION);
    assert_string_equal(outcome.message(), "enough");

    std::atomic<int> endless(0);
    {
        auto going = pool.submit_every(1ms, [&endless] { endless++; });
        while (endless == 0)
            std::this_thread::yield();
    }
    int seen = endless; /* with its future the series has gone */
    std::this_thread::sleep_for(5ms);
    assert_int_equal(endless, seen);

    auto drained = pool.submit_every(1ms, [] {});
    assert_true(pool.shutdown(STINT_SHUTDOWN_DRAIN));
    assert_int_equal(drained.outcome().reason(), STINT_REASON_SHUTDOWN);
}

TEST(the_next_task_is_given_the_outcome)
{
    stint::Pool pool(stint::PoolOptions().workers(2));
    std::atomic<bool> open(false);
    auto first = pool.submit([&open] {
        while (!open)
            std::this_thread::yield();
        throw std::system_error(EBADMSG, std::generic_category());
    });
    auto next = pool.submit_next(
        first, [kept = std::make_unique<int>(2)](const stint_outcome &outcome) { return outcome.error * *kept; });
    auto last = pool.submit_next(next, [](const stint_outcome &outcome) { return outcome.status == STINT_OK; });
    open = true;
    assert_int_equal(next.get(), 2 * EBADMSG);
    assert_true(last.get());
    assert_int_equal(code_of([&] { first.get(); }), EBADMSG);
}

TEST(a_serial_queue_runs_one_after_the_other)
{
    stint::Pool pool(stint::PoolOptions().workers(2));
    stint::Serial serial(pool);
    int sum = 0;
    std::vector<stint::Future<int>> futures;
    for (int i = 0; i < 1000; i++)
        futures.push_back(serial.submit([&sum] { return ++sum; }));
    for (int i = 0; i < 1000; i++)
        assert_int_equal(futures[static_cast<size_t>(i)].get(), i + 1);

    stint::Serial narrow(pool, 1);
    std::atomic<bool> open(false);
    auto hold = [&open] {
        while (!open)
            std::this_thread::yield();
    };
    auto running = narrow.submit(hold);
    auto waiting = narrow.submit(hold);
    auto kept = [value = std::make_unique<int>(1)] { return *value; };
    assert_int_equal(code_of([&] { narrow.submit(std::move(kept)).detach(); }), EAGAIN);
    open = true;
    waiting.get();
    assert_int_equal(narrow.submit(std::move(kept)).get(), 1); /* it is what it was */
}

TEST(a_group_waits_for_all_that_was_added)
{
    stint::Pool pool(stint::PoolOptions().workers(2));
    std::atomic<int> done(0);
    stint::Group group;
    group.wait();
    for (int i = 0; i < 50; i++) {
        group.submit(pool, [&] {
            group.submit(pool, [&done] { done++; });
            done++;
            return std::string(1000, 'x'); /* nobody's */
        });
    }
    assert_true(group.wait_for(60s));
    group.wait();
    assert_int_equal(done, 100);
    group.idle().wait();
    assert_int_equal(group.outcome().status, STINT_OK);

    group.submit(pool, [] { stint::fail_with(EPROTO, "no such table"); });
    std::string said;
    try {
        group.wait();
    } catch (const stint::error &error) {
        said = error.payload().bytes();
        assert_int_equal(error.code(), EPROTO);
    }
    assert_string_equal(said.c_str(), "no such table");

    stint::Group held;
    held.submit(pool, [] {
        for (;;)
            stint_checkpoint();
    });
    assert_false(held.wait_for(1ms));
    held.cancel();
    assert_int_equal(code_of([&] { held.wait(); }), ECANCELED);
}

struct Place {
    int line;
    int column;
};

TEST(a_payload_survives_the_rollback)
{
    stint::Pool pool(stint::PoolOptions().workers(1));
    auto fails = [] {
        std::string text(1000, 'x');
        stint::fail_with(EBADMSG, Place{ 3, static_cast<int>(text.size()) });
        return 1;
    };
    auto outcome = pool.submit(fails).outcome();
    auto place = outcome.payload().as<Place>();
    assert_true(place.has_value());
    assert_int_equal(place->line, 3);
    assert_int_equal(place->column, 1000);
    assert_false(outcome.payload().as<int>().has_value());
    assert_int_equal(outcome.code(), EBADMSG);
    assert_int_equal(stint::run(fails).payload().as<Place>()->line, 3);
    assert_false(static_cast<bool>(stint::run([] {}).payload()));
}

struct Request {
    explicit Request(int n, std::atomic<int> &count) : number(n), alive(count)
    {
        alive++;
    }
    Request(const Request &) = delete;
    Request &operator=(const Request &) = delete;
    ~Request()
    {
        alive--;
    }
    int number;
    std::atomic<int> &alive;
};

TEST(a_context_follows_its_tasks_and_goes_with_the_last)
{
    stint::Pool pool(stint::PoolOptions().workers(2));
    std::atomic<int> alive(0);
    assert_null(stint::Context<Request>::current());
    stint::Future<int> future;
    {
        stint::Context<Request> context(std::in_place, 42, alive);
        assert_int_equal(context.value()->number, 42);
        future = pool.submit(
            [&pool] { return pool.submit([] { return stint::Context<Request>::current()->number; }).get(); },
            stint::Options().context(context));
    }
    assert_int_equal(future.get(), 42);
    while (alive != 0)
        std::this_thread::yield();
}

TEST(a_completion_may_be_asked_for_in_the_options)
{
    stint::Pool pool(stint::PoolOptions().workers(1));
    stint::Completions queue;
    int seen = 0;
    auto options = stint::Options().completions(queue, &seen).discard().run_time(60s);
    pool.submit([] {}, options).detach();
    pool.submit_after(
            1ms, [] {}, options)
        .detach();
    pool.submit_every(
            1ms, [] { return false; }, options)
        .detach();
    while (seen < 3) {
        queue.drain([](const stint_completion &completion) {
            *static_cast<int *>(completion.data) += completion.outcome.status == STINT_OK;
        });
    }
}

std::atomic<int> workers_now;

TEST(a_pool_may_be_left_to_a_task_that_does_not_end)
{
    std::atomic<bool> open(false);
    auto tell = stint::PoolOptions().workers(2).tell([](void *, unsigned) { workers_now++; },
                                                     [](void *, unsigned) { workers_now--; });
    stint::Pool pool(tell);
    stint::Future<> task = pool.submit([&open] {
        while (!open)
            std::this_thread::yield();
    });
    while (!stint_future_is_ready(task.handle()) && workers_now == 0)
        std::this_thread::yield();
    assert_false(pool.shutdown(STINT_SHUTDOWN_DRAIN, 1ms));
    assert_int_equal(pool.destroy_within(1ms), 1);
    assert_null(pool.handle());
    open = true;
    assert_int_equal(task.outcome().reason(), STINT_REASON_SHUTDOWN);
    while (workers_now != 0)
        std::this_thread::yield();

    stint::Pool idle(stint::PoolOptions().workers(1));
    assert_int_equal(idle.destroy_within(60s), 0);
}

/* A task that waits for another pool's end is interrupted: an exception (maybe std::bad_alloc, as memory is refused
 * to an interrupted task in STINT_FAIL); the pool is still there, and its destructor still waits. */
TEST(a_shutdown_in_a_task_that_is_to_stop_throws)
{
    stint::Pool pool(stint::PoolOptions().workers(1));
    std::atomic<bool> open(false);
    std::atomic<bool> begun(false);
    std::atomic<bool> threw(false);
    std::atomic<bool> ended(false);
    auto future = pool.submit(
        [&] {
            stint::Pool inner(stint::PoolOptions().workers(1));
            inner
                .submit([&open, &begun, &ended] {
                    begun = true;
                    while (!open)
                        std::this_thread::yield();
                    ended = true;
                })
                .detach();
            while (!begun)
                std::this_thread::yield();
            try {
                inner.shutdown(STINT_SHUTDOWN_DRAIN);
            } catch (const std::exception &) {
                threw = true;
            }
            open = true;
        },
        stint::Options().on_interrupt(STINT_FAIL));
    while (!begun)
        std::this_thread::yield();
    future.cancel();
    assert_int_equal(future.outcome().reason(), STINT_REASON_TOKEN);
    assert_true(threw);
    assert_true(ended);
}

} // namespace

TEST_MAIN()
