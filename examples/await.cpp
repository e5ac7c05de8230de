/* SPDX-License-Identifier: MIT
 *
 * An event loop with coroutines of C++20: each line of standard input is a request, a coroutine that awaits a task with
 * its own budget. What runs in the loop's thread never blocks; the tasks run on the pool's.
 *
 *     printf '3\n100\n999999999999\n' | examples/await
 *
 * counts primes below each number, and tells the last one that it has had its half second. */
#include <coroutine>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <mutex>
#include <string>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <stint/stint.hpp>

namespace
{

/* Coroutines that can go on wait in its queue; a descriptor says that there are some. Posting is for any thread. */
class Loop
{
  public:
    Loop() : woken_(eventfd(0, EFD_NONBLOCK))
    {
    }
    ~Loop()
    {
        close(woken_);
    }
    Loop(const Loop &) = delete;
    Loop &operator=(const Loop &) = delete;

    void post(std::coroutine_handle<> handle)
    {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            ready_.push_back(handle);
        }
        const std::uint64_t one = 1;
        static_cast<void>(!write(woken_, &one, sizeof one));
    }
    int fd() const
    {
        return woken_;
    }
    void run_ready()
    {
        std::uint64_t count;
        static_cast<void>(!read(woken_, &count, sizeof count));
        for (std::deque<std::coroutine_handle<>> ready = take(); !ready.empty(); ready.pop_front())
            ready.front().resume();
    }
    /* Of coroutines. */
    int under_way = 0;

  private:
    std::deque<std::coroutine_handle<>> take()
    {
        std::lock_guard<std::mutex> lock(mutex_);
        return std::exchange(ready_, {});
    }

    int woken_;
    std::mutex mutex_;
    std::deque<std::coroutine_handle<>> ready_;
};

/* A coroutine that begins at once and frees itself at its end. */
struct Request {
    struct promise_type {
        Request get_return_object()
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

bool is_prime(unsigned long n)
{
    for (unsigned long divisor = 2; divisor * divisor <= n; divisor++) {
        if (n % divisor == 0)
            return false;
    }
    return n >= 2;
}

unsigned long count_primes(unsigned long below)
{
    unsigned long primes = 0;
    for (unsigned long n = 0; n < below; n++) {
        stint_checkpoint(); /* it allocates nothing, so this is where it can be stopped */
        primes += is_prime(n);
    }
    return primes;
}

Request answer(Loop &loop, stint::Pool &pool, std::string line)
{
    loop.under_way++;
    try {
        unsigned long below = std::strtoul(line.c_str(), nullptr, 10);
        auto options = stint::Options().wall(std::chrono::milliseconds(500));
        auto later = [&loop](std::coroutine_handle<> handle) { loop.post(handle); };
        unsigned long primes =
            co_await stint::resume_by(later, pool.submit([below] { return count_primes(below); }, options));
        std::printf("%s: %lu primes\n", line.c_str(), primes);
    } catch (const stint::failure &failure) {
        std::printf("%s: %s\n", line.c_str(), failure.what());
    } catch (const std::exception &error) {
        std::printf("%s: %s\n", line.c_str(), error.what());
    }
    loop.under_way--;
}

/* False: there is no more to come. */
bool read_lines(Loop &loop, stint::Pool &pool, std::string &rest)
{
    char buffer[4096];
    ssize_t count = read(STDIN_FILENO, buffer, sizeof buffer);
    if (count <= 0)
        return false;
    rest.append(buffer, static_cast<size_t>(count));
    for (size_t end; (end = rest.find('\n')) != std::string::npos; rest.erase(0, end + 1))
        answer(loop, pool, rest.substr(0, end));
    return true;
}

} // namespace

int main()
{
    Loop loop;
    stint::Pool pool;
    std::string rest;
    bool more = true;
    while (more || loop.under_way > 0) {
        pollfd descriptors[] = { { loop.fd(), POLLIN, 0 }, { more ? STDIN_FILENO : -1, POLLIN, 0 } };
        if (poll(descriptors, 2, -1) < 0)
            continue;
        if (descriptors[1].revents != 0)
            more = read_lines(loop, pool, rest);
        if (descriptors[0].revents != 0)
            loop.run_ready();
    }
    std::fflush(stdout);
    return 0;
}
