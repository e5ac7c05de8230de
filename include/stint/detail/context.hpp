/* SPDX-License-Identifier: MIT
 *
 * What a task of C++ sees of itself: its context (stint/token.h), its name, what it has used and has left. Part of
 * stint.hpp. */
#ifndef STINT_CONTEXT_HPP
#define STINT_CONTEXT_HPP

#include <memory>
#include <utility>

#include <stint/detail/guard.hpp>
#include <stint/detail/options.hpp>
#include <stint/token.h>

namespace stint
{

/* What belongs to a request, at hand in all that its tasks do, fork and submit. Move-only; the value lives until this
 * object has gone and the last task that has the context has resolved. All contexts of a program must have one type.
 *
 *     #include <cstdio>
 *     #include <stint/stint.hpp>
 *
 *     struct Request {
 *         int id;
 *     };
 *
 *     int main()
 *     {
 *         stint::Pool pool;
 *         stint::Context<Request> context(Request{ 42 });
 *         auto work = [] { std::printf("%d\n", stint::Context<Request>::current()->id); };
 *         pool.submit(work, stint::Options().context(context)).get();
 *     } */
template <class T> class Context
{
  public:
    /* Throws std::system_error, std::bad_alloc, and what T's constructor throws. */
    template <class... Args> explicit Context(std::in_place_t, Args &&...args)
    {
        std::unique_ptr<T> value;
        {
            Keep region; /* it may outlive the task that makes it */
            value.reset(new T(std::forward<Args>(args)...));
        }
        detail::check(stint_context_create(
                          value.get(), [](void *kept) { delete static_cast<T *>(kept); }, &context_),
                      "stint_context_create");
        static_cast<void>(value.release());
    }
    explicit Context(T value) : Context(std::in_place, std::move(value))
    {
    }
    ~Context()
    {
        stint_context_release(context_);
    }
    Context(Context &&other) noexcept : context_(std::exchange(other.context_, nullptr))
    {
    }
    Context &operator=(Context &&other) noexcept
    {
        std::swap(context_, other.context_);
        return *this;
    }

    /* The value of the context of the task that the calling thread runs; nullptr: there is none. It lives as long as
     * that task runs. */
    [[nodiscard]] static T *current() noexcept
    {
        return static_cast<T *>(stint_context_value(stint_context_current()));
    }
    [[nodiscard]] T *value() const noexcept
    {
        return static_cast<T *>(stint_context_value(context_));
    }
    [[nodiscard]] stint_context *handle() const noexcept
    {
        return context_;
    }

  private:
    stint_context *context_ = nullptr;
};

/* The task that the calling thread runs. */
namespace this_task
{

/* nullptr: it has none, or there is no task. */
[[nodiscard]] inline const char *name() noexcept
{
    return stint_task_name();
}
/* What it has used so far, and what is left to it: stint_usage_now. Throw std::system_error; ENOENT: there is no
 * task. */
[[nodiscard]] inline stint_usage used()
{
    stint_usage used;
    detail::check(stint_usage_now(&used, nullptr), "stint_usage_now");
    return used;
}
[[nodiscard]] inline stint_budget left()
{
    stint_budget left;
    detail::check(stint_usage_now(nullptr, &left), "stint_usage_now");
    return left;
}

} // namespace this_task

} // namespace stint

#endif
