/* SPDX-License-Identifier: MIT
 *
 * Futures of futures for C++17: when all of some stint::Future have ended, or the first of them. Included by stint.hpp.
 *
 *     #include <cstdio>
 *     #include <stint/stint.hpp>
 *
 *     int main()
 *     {
 *         stint::Pool pool;
 *         auto fast = pool.submit([] { return 1; });
 *         auto slow = pool.submit([] { return 2; });
 *         stint::Any first = stint::when_any(fast, slow);
 *         first.wait();
 *         std::printf("%d\n", first.index() == 0 ? fast.get() : slow.get());
 *     } */
#ifndef STINT_WHEN_HPP
#define STINT_WHEN_HPP

#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

#include <stint/detail/future.hpp>

namespace stint
{

/* All of some futures. Move-only. It may go before they have ended: it owns none of their tasks, and they go on. Their
 * values stay with their futures. */
class All
{
  public:
    explicit All(stint_future *compound) noexcept : compound_(compound)
    {
    }
    ~All()
    {
        stint_future_release(compound_);
    }
    All(All &&other) noexcept : compound_(std::exchange(other.compound_, nullptr))
    {
    }
    All &operator=(All &&other) noexcept
    {
        std::swap(compound_, other.compound_);
        return *this;
    }

    bool ready() const noexcept
    {
        return stint_future_is_ready(compound_);
    }
    /* Cancel each of them. */
    void cancel() const noexcept
    {
        stint_future_cancel(compound_);
    }
    /* Throws std::system_error, as Future::wait does. */
    void wait() const
    {
        detail::check(stint_future_wait(compound_, nullptr), "stint_future_wait");
    }
    template <class Rep, class Period> bool wait_for(std::chrono::duration<Rep, Period> time) const
    {
        return detail::wait_for(compound_, time);
    }
    stint_future *handle() const noexcept
    {
        return compound_;
    }

  private:
    stint_future *compound_;
};

/* The first of some futures. */
class Any : public All
{
  public:
    using All::All;

    /* Which one it was, in the order in which they were given. Throws std::system_error; EAGAIN: it is not ready. */
    std::size_t index() const
    {
        std::size_t index = 0;
        detail::check(stint_when_any_index(handle(), &index), "stint_when_any_index");
        return index;
    }
};

namespace detail
{

template <class Compound>
Compound combine(int (*how)(stint_future *const *, std::size_t, stint_future **), stint_future *const *futures,
                 std::size_t count)
{
    stint_future *compound = nullptr;
    check(how(futures, count, &compound), "stint_when");
    return Compound(compound);
}

template <class T> std::vector<stint_future *> handles(const std::vector<Future<T>> &futures)
{
    std::vector<stint_future *> handles;
    handles.reserve(futures.size());
    for (const Future<T> &future : futures)
        handles.push_back(future.handle());
    return handles;
}

} // namespace detail

/* Of futures, or of a vector of them. Throw std::system_error; EINVAL: one of them has no task, or when_any is given
 * none. */
template <class... T> All when_all(const Future<T> &...futures)
{
    stint_future *const handles[] = { futures.handle()... };
    return detail::combine<All>(stint_when_all, handles, sizeof...(T));
}
template <class T> All when_all(const std::vector<Future<T>> &futures)
{
    auto handles = detail::handles(futures);
    return detail::combine<All>(stint_when_all, handles.data(), handles.size());
}
template <class... T> Any when_any(const Future<T> &...futures)
{
    stint_future *const handles[] = { futures.handle()... };
    return detail::combine<Any>(stint_when_any, handles, sizeof...(T));
}
template <class T> Any when_any(const std::vector<Future<T>> &futures)
{
    auto handles = detail::handles(futures);
    return detail::combine<Any>(stint_when_any, handles.data(), handles.size());
}

} // namespace stint

#endif
