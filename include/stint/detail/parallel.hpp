/* SPDX-License-Identifier: MIT
 *
 * Loops, reductions and sorting inside a C++ task: stint/fork.h with lambdas, values of any type, and exceptions.
 * Part of stint.hpp.
 *
 * An exception ends the whole: what has not begun is left out, what runs is waited for, and the exception leaves from
 * here (of several, any). All throw std::system_error too; ECANCELED: the task is being interrupted. grain is that of
 * stint/fork.h. Any thread. */
#ifndef STINT_PARALLEL_HPP
#define STINT_PARALLEL_HPP

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <type_traits>
#include <utility>

#include <stint/detail/fork.hpp>
#include <stint/fork.h>

namespace stint
{

namespace detail
{

/* What is thrown by functions that several threads call at once, for the one that waits for all of them. */
class first_thrown
{
  public:
    /* 0; ECANCELED: it has thrown, or is not called because another one has. */
    template <class F> int call(F &&function)
    {
        if (any_.load(std::memory_order_relaxed))
            return ECANCELED;
        try {
            function();
            return 0;
        } catch (...) {
            let_unwinds_pass();
            if (!any_.exchange(true, std::memory_order_relaxed))
                thrown_ = std::current_exception();
            return ECANCELED;
        }
    }
    /* When all of them have ended, which came to this error. */
    void check(int error, const char *what)
    {
        if (thrown_ != nullptr)
            std::rethrow_exception(std::move(thrown_));
        detail::check(error, what);
    }

  private:
    std::atomic<bool> any_{ false };
    std::exception_ptr thrown_;
};

} // namespace detail

/* Call function(begin, end) for pieces that together are the range. */
template <class F> void for_ranges(std::size_t begin, std::size_t end, F &&function, std::size_t grain = 0)
{
    struct State {
        std::remove_reference_t<F> &function;
        detail::first_thrown thrown{};
    } state{ function };
    int error = stint_for(
        begin, end, grain,
        [](std::size_t from, std::size_t to, void *argument) {
            auto *here = static_cast<State *>(argument);
            return here->thrown.call([&] { here->function(from, to); });
        },
        &state);
    state.thrown.check(error, "stint_for");
}

/* Call function(i) for each index of the range, once. */
template <class F> void for_each(std::size_t begin, std::size_t end, F &&function, std::size_t grain = 0)
{
    for_ranges(
        begin, end,
        [&function](std::size_t from, std::size_t to) {
            for (std::size_t i = from; i < to; i++)
                function(i);
        },
        grain);
}

namespace detail
{

/* An accumulator of the C interface is a pointer to one of these, made when it is first needed. All of them go at the
 * end, also after an exception. */
template <class T> class accumulators
{
  public:
    struct one {
        T value;
        one *next;
    };

    explicit accumulators(const T &neutral) : neutral_(neutral)
    {
    }
    ~accumulators()
    {
        for (one *made = made_.load(std::memory_order_acquire); made != nullptr;)
            delete std::exchange(made, made->next);
    }
    T &at(void *place)
    {
        one *&here = *static_cast<one **>(place);
        if (here == nullptr) {
            here = new one{ neutral_, made_.load(std::memory_order_relaxed) };
            while (!made_.compare_exchange_weak(here->next, here, std::memory_order_release))
                ;
        }
        return here->value;
    }

  private:
    const T &neutral_;
    std::atomic<one *> made_{ nullptr };
};

} // namespace detail

/* Reduce the range to one value: accumulate(value, begin, end) adds what belongs to a piece to a value that began as a
 * copy of neutral; combine(value, behind) adds another one, which may be moved from, from the range right behind. Must
 * be associative, need not be commutative. */
template <class T, class Accumulate, class Combine>
[[nodiscard]] T reduce(std::size_t begin, std::size_t end, const T &neutral, Accumulate &&accumulate, Combine &&combine,
                       std::size_t grain = 0)
{
    struct State {
        detail::accumulators<T> all;
        std::remove_reference_t<Accumulate> &accumulate;
        std::remove_reference_t<Combine> &combine;
        detail::first_thrown thrown{};
    } state{ detail::accumulators<T>(neutral), accumulate, combine };
    stint_reduction reduction = {};
    reduction.size = sizeof(void *);
    reduction.accumulate = [](std::size_t from, std::size_t to, void *place, void *argument) {
        auto *here = static_cast<State *>(argument);
        return here->thrown.call([&] { here->accumulate(here->all.at(place), from, to); });
    };
    reduction.combine = [](void *place, const void *behind, void *argument) {
        auto *here = static_cast<State *>(argument);
        here->thrown.call([&] {
            T &value = here->all.at(place);
            here->combine(value, std::move(here->all.at(const_cast<void *>(behind))));
        });
    };
    void *result = nullptr;
    int error = stint_reduce(begin, end, grain, &reduction, &state, &result);
    state.thrown.check(error, "stint_reduce");
    return std::move(state.all.at(&result));
}

namespace detail
{

constexpr std::ptrdiff_t sort_grain = 2048;

template <class Iterator, class Less> void sort_by_forks(Iterator first, Iterator last, Less &less)
{
    if (last - first <= sort_grain) {
        std::stable_sort(first, last, std::ref(less));
        return;
    }
    Iterator middle = first + (last - first) / 2;
    Fork upper([&] { sort_by_forks(middle, last, less); });
    sort_by_forks(first, middle, less);
    upper.join();
    std::inplace_merge(first, middle, last, std::ref(less));
}

} // namespace detail

/* Sort the elements from first to last, stably. less is called by several threads at once; where it throws, the
 * elements are in some order. Elements that can be copied byte by byte, and lie one behind the other in memory, are
 * sorted by stint_sort. */
template <class Iterator, class Less = std::less<>> void sort(Iterator first, Iterator last, Less less = Less())
{
    using Element = typename std::iterator_traits<Iterator>::value_type;
    if constexpr (std::is_pointer_v<Iterator> && std::is_trivially_copyable_v<Element>) {
        struct State {
            Less &less;
            detail::first_thrown thrown{};
        } state{ less };
        int error = stint_sort(
            first, static_cast<std::size_t>(last - first), sizeof(Element),
            [](const void *a, const void *b, void *argument) {
                auto *here = static_cast<State *>(argument);
                bool behind = false; /* equal elements keep their order: more need not be known */
                here->thrown.call(
                    [&] { behind = here->less(*static_cast<const Element *>(b), *static_cast<const Element *>(a)); });
                return behind ? 1 : 0;
            },
            &state);
        state.thrown.check(error, "stint_sort");
    } else {
        detail::sort_by_forks(first, last, less);
    }
}

/* Of a std::vector, std::array, ... */
template <class Container, class Less = std::less<>>
auto sort(Container &container, Less less = Less()) -> decltype(std::data(container), void())
{
    stint::sort(std::data(container), std::data(container) + std::size(container), std::move(less));
}

} // namespace stint

#endif
