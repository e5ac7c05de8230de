/* SPDX-License-Identifier: MIT
 *
 * The future of a C++ task. Part of stint.hpp. */
#ifndef STINT_FUTURE_HPP
#define STINT_FUTURE_HPP

#include <cerrno>
#include <chrono>
#include <memory>
#include <type_traits>
#include <utility>

#include <stint/detail/guard.hpp>
#include <stint/detail/outcome.hpp>
#include <stint/future.h>

namespace stint
{

namespace detail
{

/* Whether it has ended in time. */
template <class Rep, class Period> bool wait_for(stint_future *future, std::chrono::duration<Rep, Period> time)
{
    int error = stint_future_wait_for(future, nanoseconds(time), nullptr);
    if (error == ETIMEDOUT)
        return false;
    check(error, "stint_future_wait_for");
    return true;
}

} // namespace detail

namespace detail
{
struct submission;
}

/* The future of a submitted task. Move-only. A Future that goes before its task has ended cancels the task and waits
 * for it, like std::jthread: what the task refers to lives at least as long as its Future, if it was made before. */
template <class T = void> class [[nodiscard]] Future
{
  public:
    Future() noexcept = default;
    ~Future()
    {
        abandon();
    }
    Future(Future &&other) noexcept : record_(std::move(other.record_)), future_(std::exchange(other.future_, nullptr))
    {
    }
    Future &operator=(Future &&other) noexcept
    {
        if (this != &other) {
            abandon();
            record_ = std::move(other.record_);
            future_ = std::exchange(other.future_, nullptr);
        }
        return *this;
    }

    /* Whether there is a task whose outcome has not been taken. */
    [[nodiscard]] bool valid() const noexcept
    {
        return future_ != nullptr;
    }
    [[nodiscard]] bool ready() const noexcept
    {
        return stint_future_is_ready(future_);
    }
    void cancel() const noexcept
    {
        stint_future_cancel(future_);
    }
    /* stint_future_set_budget. False: it has been stopped, or has ended. Throws std::system_error without a task. */
    bool set_budget(const stint_budget &budget) const
    {
        int error = stint_future_set_budget(future_, &budget);
        detail::check(error != EALREADY ? error : 0, "stint_future_set_budget");
        return error == 0;
    }
    /* What it has used so far: stint_future_usage. Throws as set_budget does. */
    [[nodiscard]] stint_usage usage() const
    {
        stint_usage usage;
        detail::check(stint_future_usage(future_, &usage), "stint_future_usage");
        return usage;
    }
    /* Wait until the task has ended. Throws std::system_error with an error of stint_future_wait: EINVAL without a
     * task, EDEADLK in the task itself. */
    void wait() const
    {
        detail::check(stint_future_wait(future_, nullptr), "stint_future_wait");
    }
    /* Wait at most so long. Whether it has ended in time. Throws as wait does. */
    template <class Rep, class Period> bool wait_for(std::chrono::duration<Rep, Period> time) const
    {
        return detail::wait_for(future_, time);
    }
    /* Have callback(outcome) called, with a const stint_outcome &, when the task has ended: stint_future_then says
     * where, and what it may do. It is moved, or copied, and must not throw. It does not touch the
     * value, which is get()'s. Given in a task, it outlives that, but not what its captures own: that is the task's. */
    template <class F> void then(F &&callback) const
    {
        using Callback = std::decay_t<F>;
        static_assert(std::is_invocable_v<Callback &, const stint_outcome &>,
                      "a callback takes a const stint_outcome &");
        std::unique_ptr<Callback> kept;
        {
            Keep region;
            kept.reset(new Callback(std::forward<F>(callback)));
        }
        detail::check(stint_future_then(
                          future_,
                          [](stint_future *, const stint_outcome *outcome, void *function) {
                              (*std::unique_ptr<Callback>(static_cast<Callback *>(function)))(*outcome);
                          },
                          kept.get()),
                      "stint_future_then");
        static_cast<void>(kept.release()); /* it frees itself; nothing of this object may be touched any more */
    }
    /* Let the task go on by itself: its value is destroyed when it has ended. What it refers to must live as long.
     * valid() is false afterwards. */
    void detach() noexcept
    {
        if (future_ != nullptr)
            leave(std::exchange(future_, nullptr));
    }
    /* Wait, and take the outcome: valid() is false afterwards. Throws as wait does. */
    [[nodiscard]] Outcome<T> outcome()
    {
        stint_outcome raw;
        detail::check(stint_future_wait(future_, &raw), "stint_future_wait");
        struct released {
            std::unique_ptr<detail::record<T>> record;
            stint_future *future;
            ~released()
            {
                stint_future_release(future);
            }
        } after{ std::move(record_), std::exchange(future_, nullptr) };
        if (raw.status == STINT_OK)
            after.record->arrive(raw);
        return { raw, *after.record };
    }
    /* Wait, and take the value; or throw stint::error or stint::cancelled. */
    T get()
    {
        return outcome().get();
    }
    [[nodiscard]] stint_future *handle() const noexcept
    {
        return future_;
    }

  private:
    friend struct detail::submission;
    Future(std::unique_ptr<detail::record<T>> record, stint_future *future) noexcept
        : record_(std::move(record)), future_(future)
    {
    }

    /* Where it may not wait, in a callback or in the task itself, it leaves the task to itself. */
    void abandon() noexcept
    {
        if (future_ == nullptr)
            return;
        stint_mask();
        stint_outcome raw;
        stint_future *future = std::exchange(future_, nullptr);
        stint_future_cancel(future);
        if (stint_future_wait(future, &raw) != 0) {
            leave(future);
        } else {
            drop(*record_, raw);
            record_.reset();
            stint_future_release(future);
        }
        stint_unmask();
    }

    /* The value, if there is one, is nobody's. */
    static void drop(detail::record<T> &record, const stint_outcome &outcome) noexcept
    {
        if (outcome.status != STINT_OK)
            return;
        record.arrive(outcome);
        record.drop();
    }

    /* The record is freed when the task has ended; never, if there is no memory to say so. */
    void leave(stint_future *future) noexcept
    {
        stint_future_then(
            future,
            [](stint_future *, const stint_outcome *outcome, void *kept) {
                std::unique_ptr<detail::record<T>> record(static_cast<detail::record<T> *>(kept));
                drop(*record, *outcome);
            },
            record_.release());
        stint_future_release(future);
    }

    std::unique_ptr<detail::record<T>> record_;
    stint_future *future_ = nullptr;
};

/* One more reference to a future, to look at a task or to cancel it without its value: stint_future_retain. It may
 * outlive the Future, which still cancels its task when it goes. Copyable. */
class FutureReference
{
  public:
    FutureReference() noexcept = default;
    template <class T>
    explicit FutureReference(const Future<T> &future) noexcept : future_(stint_future_retain(future.handle()))
    {
    }
    ~FutureReference()
    {
        stint_future_release(future_);
    }
    FutureReference(const FutureReference &other) noexcept : future_(stint_future_retain(other.future_))
    {
    }
    FutureReference(FutureReference &&other) noexcept : future_(std::exchange(other.future_, nullptr))
    {
    }
    FutureReference &operator=(FutureReference other) noexcept
    {
        std::swap(future_, other.future_);
        return *this;
    }

    [[nodiscard]] bool ready() const noexcept
    {
        return stint_future_is_ready(future_);
    }
    void cancel() const noexcept
    {
        stint_future_cancel(future_);
    }
    /* Throws std::system_error, as Future::wait does. */
    void wait() const
    {
        detail::check(stint_future_wait(future_, nullptr), "stint_future_wait");
    }
    template <class Rep, class Period> bool wait_for(std::chrono::duration<Rep, Period> time) const
    {
        return detail::wait_for(future_, time);
    }
    [[nodiscard]] stint_future *handle() const noexcept
    {
        return future_;
    }

  private:
    stint_future *future_ = nullptr;
};

namespace detail
{

/* Making a record of a function and submitting it; what is thrown leaves the function as it was. */
struct submission {
    template <class Record, class T, class F, class Submit> static Future<T> put_as(F &&function, Submit submit)
    {
        std::unique_ptr<Record> record;
        {
            Keep region;
            record.reset(new Record(std::forward<F>(function)));
        }
        stint_future *future = nullptr;
        check(submit(static_cast<record_base *>(record.get()), &future), "stint_submit");
        return { std::move(record), future };
    }

    template <class F, class Submit> static Future<result<F>> put(F &&function, const Options &options, Submit submit)
    {
        using Callable = std::decay_t<F>;
        return put_as<record_of<Callable>, result<F>>(
            std::forward<F>(function), [&](record_base *record, stint_future **future) {
                int error = submit(entry(options), record, &options.get(), future);
                if constexpr (std::is_same_v<F, Callable> && std::is_nothrow_move_constructible_v<Callable>) {
                    if (error != 0)
                        static_cast<record_of<Callable> *>(record)->give_back(function);
                }
                return error;
            });
    }
};

} // namespace detail

} // namespace stint

#endif
