/* SPDX-License-Identifier: MIT
 *
 * std::thread in tasks whose threads are their own: charged, interrupted in and between waits, and what they throw. */
#include "../test.h"
#include <stint/stint.h>
#include <stint/stint.hpp>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <future>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace
{

constexpr std::size_t LIMIT = std::size_t(8) << 20;

stint_outcome run_charged(stint_fn *fn, stint_on_interrupt mode, std::uint64_t time_ns = 0)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.threads = STINT_THREADS_CHARGED;
    options.on_interrupt = mode;
    options.budget.allocation = LIMIT;
    options.budget.wall_ns = time_ns;
    stint_outcome outcome;
    assert_int_equal(stint_run(fn, nullptr, &options, &outcome), 0);
    return outcome;
}

int fill_in_threads(void *, void **)
{
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++)
        threads.emplace_back([] {
            std::vector<std::unique_ptr<char[]>> blocks;
            for (;;)
                blocks.emplace_back(new char[1000]);
        });
    for (std::thread &thread : threads)
        thread.join();
    return 0;
}

struct Queue {
    std::mutex mutex;
    std::condition_variable changed;
    bool filled = false;
};

int wait_in_threads(void *, void **)
{
    static Queue queue; /* a lock that stayed held would be seen by the next task */
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++)
        threads.emplace_back([] {
            std::unique_lock<std::mutex> lock(queue.mutex);
            queue.changed.wait(lock, [] { return queue.filled; });
        });
    std::unique_lock<std::mutex> lock(queue.mutex);
    queue.changed.wait(lock, [] { return queue.filled; });
    return 0;
}

int compute_in_threads(void *, void **value)
{
    std::future<std::string> first = std::async(std::launch::async, [] { return std::string(100, 'a'); });
    std::future<std::string> second = std::async(std::launch::async, [] { return std::string(100, 'b'); });
    *value = strdup((first.get() + second.get()).c_str());
    return 0;
}

} // namespace

TEST(a_std_thread_that_allocates_too_much_is_left)
{
    for (stint_on_interrupt mode : { STINT_JUMP, STINT_UNWIND }) {
        for (int i = 0; i < 10; i++) {
            stint_outcome outcome = run_charged(fill_in_threads, mode);
            assert_int_equal(outcome.reason, STINT_REASON_ALLOCATION_LIMIT);
            assert_true(outcome.usage.allocated < LIMIT + LIMIT / 8);
        }
    }
}

TEST(one_that_waits_is_left_too)
{
    for (stint_on_interrupt mode : { STINT_JUMP, STINT_UNWIND }) {
        for (int i = 0; i < 5; i++)
            assert_int_equal(run_charged(wait_in_threads, mode, 3000000).reason, STINT_REASON_DEADLINE);
    }
}

TEST(results_of_async_are_the_tasks)
{
    stint_outcome outcome = run_charged(compute_in_threads, STINT_JUMP);
    assert_int_equal(outcome.status, STINT_OK);
    assert_int_equal(std::strlen(static_cast<char *>(outcome.value)), 200);
    std::free(outcome.value);
}

TEST_MAIN()
