/* SPDX-License-Identifier: MIT
 *
 * co_await of a stint::Future, for C++20. Part of stint.hpp where the compiler has coroutines. examples/await.cpp shows
 * co_await stint::resume_by(loop, pool.submit(count_words)).
 *
 * The coroutine goes on when the task has ended, with the value of Future::get, or what that throws. While it waits it
 * must not be destroyed. */
#ifndef STINT_COROUTINE_HPP
#define STINT_COROUTINE_HPP

#if defined(__cpp_impl_coroutine) && __has_include(<coroutine>)

#include <coroutine>
#include <utility>

#include <stint/detail/future.hpp>

namespace stint
{

namespace detail
{

/* By the time that then() returns, the coroutine may have ended, and this with it. */
template <class T, class Resume> struct awaiter {
    Future<T> future;
    Resume resume_;

    bool await_ready() const noexcept
    {
        return future.ready();
    }
    void await_suspend(std::coroutine_handle<> waiting)
    {
        future.then([waiting, resume = std::move(resume_)](const stint_outcome &) mutable { resume(waiting); });
    }
    T await_resume()
    {
        return future.get();
    }
};

} // namespace detail

/* post(handle) is called in a callback (stint_future_then says where, and what it may do there): it hands the
 * std::coroutine_handle<> to what resumes it, such as an event loop. */
template <class T, class Post> [[nodiscard]] auto resume_by(Post post, Future<T> &&future)
{
    return detail::awaiter<T, Post>{ std::move(future), std::move(post) };
}

/* co_await pool.submit(...): goes on right in the callback, where it must not block. */
template <class T> [[nodiscard]] auto operator co_await(Future<T> &&future)
{
    return resume_by([](std::coroutine_handle<> waiting) { waiting.resume(); }, std::move(future));
}

} // namespace stint

#endif
#endif
