/* SPDX-License-Identifier: MIT
 *
 * co_await of futures: values, exceptions, and where the coroutine goes on. C++20. */
#include <stddef.h>
#include <stdint.h>

#include <atomic>
#include <coroutine>
#include <exception>
#include <semaphore.h>
#include <string>
#include <thread>
#include <unistd.h>

#include <stint/stint.hpp>

#include "../lacks.h"
#include "../test.h" /* last: it has a macro of the name of a function in a standard header */

namespace
{

struct Job {
    struct promise_type {
        Job get_return_object()
        {
            return {};
        }
        std::suspend_never initial_suspend() noexcept
        {
            return {};
        }
        std::suspend_never final_suspend() noexcept
        {
            return {};
        }
        void return_void()
        {
        }
        void unhandled_exception()
        {
            std::terminate();
        }
    };
};

struct Ended {
    sem_t semaphore;
    Ended()
    {
        sem_init(&semaphore, 0, 0);
    }
    void post()
    {
        sem_post(&semaphore);
    }
    void wait()
    {
        while (sem_wait(&semaphore) != 0)
            ;
    }
};

Job await_all(stint::Pool &pool, std::string &seen, Ended &ended)
{
    seen += co_await pool.submit([] { return std::string("value "); });
    co_await pool.submit([] {});
    try {
        seen += std::to_string(co_await pool.submit([]() -> int { throw std::runtime_error("thrown "); }));
    } catch (stint::error &error) {
        seen += error.what();
    }
    try {
        co_await pool.submit(
            [] {
                for (;;)
                    stint_checkpoint();
            },
            stint::Options().wall(std::chrono::milliseconds(30)));
    } catch (stint::error &error) {
        seen += error.what();
    }
    auto ready = pool.submit([] { return std::string(" ready"); });
    seen += co_await std::move(ready);
    ended.post();
}

Job await_walled(const stint::Wall &wall, const stint::Pool &pool, std::string &seen, Ended &ended)
{
    auto echo = [](const void *input, size_t size, stint_reply *reply) {
        return stint_reply_write(reply, input, size);
    };
    seen += (co_await wall.submit(pool, echo, std::string("reply "))).view();
    try {
        co_await wall.submit(
            pool, [](const void *, size_t, stint_reply *) -> int { throw std::runtime_error("thrown "); }, {});
    } catch (stint::error &error) {
        seen += error.what();
    }
    try {
        co_await wall.submit(pool, [](const void *, size_t, stint_reply *) -> int { _exit(3); }, {});
    } catch (stint::error &error) {
        seen += error.what();
    }
    ended.post();
}

/* The first one, as a wall is made while there are no other threads. */
TEST(what_a_wall_gives_arrives_too)
{
    if (lack_of_filters() != nullptr)
        skip_because(lack_of_filters());
    stint::Wall wall;
    stint::Pool pool(stint::PoolOptions().workers(1));
    for (int i = 0; i < 5; i++) {
        std::string seen;
        Ended ended;
        await_walled(wall, pool, seen, ended);
        ended.wait();
        assert_string_equal(seen.c_str(), "reply thrown exit status 3");
    }
}

TEST(values_and_exceptions_arrive)
{
    stint::Pool pool(stint::PoolOptions().workers(2));
    for (int i = 0; i < 20; i++) {
        std::string seen;
        Ended ended;
        await_all(pool, seen, ended);
        ended.wait();
        assert_string_equal(seen.c_str(), "value thrown deadline ready");
    }
    assert_true(pool.shutdown(STINT_SHUTDOWN_DRAIN));
}

Job await_elsewhere(stint::Pool &pool, std::atomic<void *> &waiting, std::thread::id &resumed, Ended &ended)
{
    auto post = [&waiting, &ended](std::coroutine_handle<> handle) {
        waiting = handle.address();
        ended.post();
    };
    co_await stint::resume_by(post, pool.submit([] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }));
    resumed = std::this_thread::get_id();
}

TEST(a_coroutine_goes_on_where_it_is_resumed)
{
    stint::Pool pool(stint::PoolOptions().workers(1));
    std::atomic<void *> waiting(nullptr);
    std::thread::id resumed;
    Ended ended;
    await_elsewhere(pool, waiting, resumed, ended);
    ended.wait();
    std::coroutine_handle<>::from_address(waiting).resume();
    assert_true(resumed == std::this_thread::get_id());
}

} // namespace

TEST_MAIN()
