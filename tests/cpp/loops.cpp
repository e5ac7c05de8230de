/* SPDX-License-Identifier: MIT
 *
 * stint.hpp: forks, loops, reductions and sorts give what serial code gives, and throw what it throws. */
#include <stddef.h>
#include <stdint.h>

#include "../test.h"
#include <algorithm>
#include <atomic>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <stint/stint.hpp>

namespace
{

/* In pools of one worker and of three, and outside of any. */
template <class F> void everywhere(F function)
{
    function();
    for (unsigned workers = 1; workers <= 3; workers += 2) {
        stint::Pool pool(stint::PoolOptions().workers(workers));
        for (int i = 0; i < 10; i++)
            pool.submit(function).get();
    }
    stint::run(function).get();
}

struct Bad : std::runtime_error {
    int number;
    explicit Bad(int number_) : std::runtime_error("bad"), number(number_)
    {
    }
};

/* Aborts the task with its message: a failing assertion would jump out of it. */
void require(bool condition, const char *what)
{
    if (!condition)
        throw std::logic_error(what);
}

long fibonacci(int n)
{
    if (n < 2)
        return n;
    stint::Fork smaller([n] { return fibonacci(n - 2); });
    long larger = fibonacci(n - 1);
    return smaller.join() + larger;
}

std::atomic<int> alive;
std::atomic<void *> sink;

struct Counted {
    int number = 0;
    Counted()
    {
        alive++;
    }
    Counted(const Counted &other) : number(other.number)
    {
        alive++;
    }
    Counted(Counted &&other) noexcept : number(other.number)
    {
        alive++;
    }
    Counted &operator=(const Counted &) = default;
    Counted &operator=(Counted &&) = default;
    ~Counted()
    {
        alive--;
    }
};

TEST(forks_return_and_throw)
{
    everywhere([] {
        require(fibonacci(18) == 2584, "fibonacci");
        stint::Fork text([] { return std::string(1000, 'x'); });
        stint::Fork thrower([]() -> int { throw Bad(7); });
        int caught = 0;
        try {
            static_cast<void>(thrower.join());
        } catch (Bad &bad) {
            caught = bad.number;
        }
        require(caught == 7, "thrown");
        require(text.join() == std::string(1000, 'x'), "text");
        std::atomic<int> sum(0);
        stint::invoke([&] { sum += 1; }, [&] { sum += 10; }, [&] { sum += 100; });
        require(sum == 111, "invoke");
        stint::Fork nothing([] {});
        nothing.join();
    });
}

TEST(forks_that_are_not_joined_go_with_their_frame)
{
    everywhere([] {
        for (int i = 0; i < 20; i++) {
            try {
                Counted counted;
                std::vector<int> numbers(1000, 1);
                stint::Fork sums([&numbers] {
                    Counted inside;
                    return std::accumulate(numbers.begin(), numbers.end(), 0);
                });
                stint::Fork value([] { return Counted(); });
                fibonacci(8);
                if (i % 2 == 0)
                    throw Bad(i);
                require(sums.join() == 1000, "sum");
            } catch (Bad &) {
            }
        }
    });
    assert_int_equal(alive, 0);
}

TEST(loops_visit_each_index_once)
{
    everywhere([] {
        std::vector<std::atomic<int>> visits(5000);
        stint::for_each(0, visits.size(), [&](size_t i) { visits[i]++; });
        stint::for_ranges(
            0, visits.size(),
            [&](size_t begin, size_t end) {
                require(end - begin <= 7, "grain");
                for (size_t i = begin; i < end; i++)
                    visits[i] += 10;
            },
            7);
        for (auto &count : visits)
            require(count == 11, "visits");
        int caught = -1;
        try {
            stint::for_each(
                0, 5000,
                [](size_t i) {
                    if (i == 4000)
                        throw Bad(static_cast<int>(i));
                },
                1);
        } catch (Bad &bad) {
            caught = bad.number;
        }
        require(caught == 4000, "thrown");
    });
}

TEST(reductions_take_values_of_any_type)
{
    everywhere([] {
        auto text = stint::reduce(
            0, 3000, std::string(),
            [](std::string &all, size_t begin, size_t end) {
                for (size_t i = begin; i < end; i++)
                    all += static_cast<char>('a' + i % 26);
            },
            [](std::string &all, std::string &&behind) { all += behind; }, 3);
        require(text.size() == 3000, "size");
        for (size_t i = 0; i < text.size(); i++)
            require(text[i] == static_cast<char>('a' + i % 26), "order");
        require(stint::reduce(
                    5, 5, 42, [](int &, size_t, size_t) {}, [](int &, int) {}) == 42,
                "neutral");
        for (int round = 0; round < 5; round++) {
            bool thrown = false;
            try {
                static_cast<void>(stint::reduce(
                    0, 3000, Counted(),
                    [](Counted &all, size_t begin, size_t end) {
                        all.number += static_cast<int>(end - begin);
                        if (begin == 2500)
                            throw Bad(0);
                    },
                    [](Counted &all, Counted &&behind) { all.number += behind.number; }, 1));
            } catch (Bad &) {
                thrown = true;
            }
            require(thrown, "thrown");
        }
    });
    assert_int_equal(alive, 0);
}

TEST(sorts_are_stable_for_all_types)
{
    everywhere([] {
        std::vector<std::pair<int, int>> pairs(30000);
        std::vector<std::string> texts;
        for (size_t i = 0; i < pairs.size(); i++) {
            pairs[i] = { static_cast<int>(i * 7919 % 101), static_cast<int>(i) };
            texts.push_back(std::to_string(i * 7919 % 30011));
        }
        stint::sort(pairs.begin(), pairs.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
        require(std::is_sorted(pairs.begin(), pairs.end()), "pairs");
        stint::sort(texts);
        require(std::is_sorted(texts.begin(), texts.end()), "texts");
        std::vector<long> numbers(50000);
        for (size_t i = 0; i < numbers.size(); i++)
            numbers[i] = static_cast<long>(i * 7919 % 50021);
        stint::sort(numbers, std::greater<>());
        require(std::is_sorted(numbers.begin(), numbers.end(), std::greater<>()), "numbers");
        bool thrown = false;
        try {
            stint::sort(texts.begin(), texts.end(), [](const std::string &a, const std::string &b) {
                if (a == "12345" || b == "12345")
                    throw Bad(0);
                return a > b;
            });
        } catch (Bad &) {
            thrown = true;
        }
        require(thrown, "thrown");
    });
}

/* Over several threads, with destructors. */
TEST(an_interrupt_ends_all_of_it)
{
    stint::Pool pool(stint::PoolOptions().workers(3));
    for (int i = 0; i < 20; i++) {
        auto outcome = pool.submit(
                               [] {
                                   stint::for_each(
                                       0, 1000000,
                                       [](size_t) {
                                           Counted counted;
                                           sink = ::operator new(1000);
                                       },
                                       1);
                               },
                               stint::Options().allocation(2000000))
                           .outcome();
        assert_int_equal(outcome.reason(), STINT_REASON_ALLOCATION_LIMIT);
    }
    assert_int_equal(alive, 0);
}

} // namespace

TEST_MAIN()
