/* SPDX-License-Identifier: MIT
 *
 * The pool, for C++ tasks. Part of stint.hpp. */
#ifndef STINT_POOL_HPP
#define STINT_POOL_HPP

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <pthread.h>
#include <type_traits>
#include <utility>

#include <stint/detail/future.hpp>
#include <stint/interrupt.h>
#include <stint/later.h>
#include <stint/pool.h>

namespace stint
{

namespace detail
{

/* Of CLOCK_MONOTONIC, which is steady_clock's; never 0. */
template <class Clock, class Duration> std::uint64_t monotonic(std::chrono::time_point<Clock, Duration> time)
{
    using std::chrono::steady_clock;
    std::uint64_t until;
    if constexpr (std::is_same_v<Clock, steady_clock>)
        return (until = nanoseconds(time.time_since_epoch())) != 0 ? until : 1;
    std::uint64_t now = nanoseconds(steady_clock::now().time_since_epoch());
    until = nanoseconds(time - Clock::now());
    return until < std::numeric_limits<std::uint64_t>::max() - now ? now + until : until;
}

} // namespace detail

/* A pool: stint/pool.h. Move-only. A Pool that goes cancels its tasks and waits for its workers; in one of its own
 * tasks, or in a callback, it starts a thread that does so. Its constructor throws std::system_error. Any thread. */
class Pool
{
  public:
    explicit Pool(const stint_pool_options &options = STINT_POOL_OPTIONS_INIT)
    {
        detail::check(stint_pool_create(&options, &pool_), "stint_pool_create");
    }
    ~Pool()
    {
        stint_mask(); /* an interrupt has to wait: nobody else would free it */
        if (stint_pool_destroy(pool_) == EDEADLK)
            destroy_elsewhere();
        stint_unmask();
    }
    Pool(Pool &&other) noexcept : pool_(std::exchange(other.pool_, nullptr))
    {
    }
    Pool &operator=(Pool &&other) noexcept
    {
        std::swap(pool_, other.pool_);
        return *this;
    }

    /* Run function() as a task. Throws std::system_error; EAGAIN: the queue is full, wait for something and try again.
     * When it throws, the function is what it was. */
    template <class F> Future<detail::result<F>> submit(F &&function, const Options &options = Options())
    {
        return detail::submission::put(
            std::forward<F>(function), options,
            [this](stint_fn *entry, void *record, const stint_options *raw, stint_future **future) {
                return stint_submit(pool_, entry, record, raw, future);
            });
    }
    /* The same, but where the queue is full wait for a slot, as stint_submit_wait does. ETIMEDOUT: in vain. */
    template <class F, class Rep, class Period>
    Future<detail::result<F>> submit_wait(F &&function, std::chrono::duration<Rep, Period> time,
                                          const Options &options = Options())
    {
        return detail::submission::put(
            std::forward<F>(function), options,
            [this, time](stint_fn *entry, void *record, const stint_options *raw, stint_future **future) {
                return stint_submit_wait(pool_, entry, record, raw, detail::nanoseconds(time), future);
            });
    }
    /* The same, but not before this time: stint_submit_at. */
    template <class F, class Clock, class Duration>
    Future<detail::result<F>> submit_at(std::chrono::time_point<Clock, Duration> time, F &&function,
                                        const Options &options = Options())
    {
        return detail::submission::put(
            std::forward<F>(function), options,
            [this, time](stint_fn *entry, void *record, const stint_options *raw, stint_future **future) {
                return stint_submit_at(pool_, entry, record, raw, detail::monotonic(time), future);
            });
    }
    /* The same, but not before so much time has passed. */
    template <class F, class Rep, class Period>
    Future<detail::result<F>> submit_after(std::chrono::duration<Rep, Period> time, F &&function,
                                           const Options &options = Options())
    {
        return submit_at(std::chrono::steady_clock::now() + time, std::forward<F>(function), options);
    }
    /* Run function() at this time and again and again, a period apart: stint_submit_every. Each turn is a task of its
     * own and calls a copy. A function that returns something ends the series, Ok, when that is false. The future is
     * that of them all: it throws what a turn has thrown. */
    template <class F, class Clock, class Duration, class Rep, class Period>
    Future<> submit_every(std::chrono::time_point<Clock, Duration> start, std::chrono::duration<Rep, Period> period,
                          F &&function, const Options &options = Options())
    {
        using Callable = std::decay_t<F>;
        stint_fn *turn = options.is_expired() ? detail::record_base::enter_expired : detail::record_base::enter_turn;
        return detail::submission::put_as<detail::record_of_series<Callable>, void>(
            std::forward<F>(function), [&](detail::record_base *record, stint_future **future) {
                return stint_submit_every(pool_, turn, record, &options.get(), detail::monotonic(start),
                                          detail::nanoseconds(period), future);
            });
    }
    /* The same, beginning when one period has passed. */
    template <class F, class Rep, class Period>
    Future<> submit_every(std::chrono::duration<Rep, Period> period, F &&function, const Options &options = Options())
    {
        return submit_every(std::chrono::steady_clock::now() + period, period, std::forward<F>(function), options);
    }
    /* Run function(outcome), with a const stint_outcome &, as a task when that future has resolved:
     * stint_future_then_submit. The value stays the first future's. */
    template <class T, class F>
    Future<detail::next_result<F>> submit_next(const Future<T> &future, F &&function,
                                               const Options &options = Options())
    {
        using Record = detail::record_of_next<std::decay_t<F>>;
        stint_next_fn *entry = options.is_expired() ? Record::enter_expired_next : Record::enter_next;
        return detail::submission::put_as<Record, detail::next_result<F>>(
            std::forward<F>(function), [&](detail::record_base *record, stint_future **next) {
                return stint_future_then_submit(future.handle(), pool_, entry, record, &options.get(), next);
            });
    }

    /* Shut the pool down: stint_pool_shutdown. Whether all workers have ended; false: not in time, and the shutdown
     * goes on. Throws std::system_error; EDEADLK: in a task of this pool; ECANCELED: the calling task, in STINT_FAIL,
     * is to stop. */
    bool shutdown(stint_shutdown how)
    {
        return shutdown_within(how, STINT_FOREVER);
    }
    template <class Rep, class Period> bool shutdown(stint_shutdown how, std::chrono::duration<Rep, Period> time)
    {
        return shutdown_within(how, detail::nanoseconds(time));
    }
    /* Destroy the pool, but wait no longer than this for tasks that nothing ends: then it is left to them, and their
     * number is returned; 0: all have ended. Afterwards there is no pool. When it throws std::system_error there still
     * is; EDEADLK: in a task of this pool. */
    template <class Rep, class Period> unsigned destroy_within(std::chrono::duration<Rep, Period> time)
    {
        unsigned left = 0;
        int error = stint_pool_destroy_within(pool_, detail::nanoseconds(time), &left);
        if (error != ETIMEDOUT)
            detail::check(error, "stint_pool_destroy_within");
        pool_ = nullptr;
        return left;
    }
    unsigned workers() const noexcept
    {
        return stint_pool_workers(pool_);
    }
    stint_pool *handle() const noexcept
    {
        return pool_;
    }
    /* The pool of which the calling thread is a worker; nullptr: it is none. For the functions of stint/pool.h. */
    [[nodiscard]] static stint_pool *current() noexcept
    {
        return stint_pool_current();
    }

  private:
    /* In a task of the pool, or in a callback, its workers cannot be waited for: a thread does that. */
    void destroy_elsewhere() noexcept
    {
        pthread_t thread;
        auto destroy = [](void *pool) -> void * {
            stint_pool_destroy(static_cast<stint_pool *>(pool));
            return nullptr;
        };
        if (pthread_create(&thread, nullptr, destroy, pool_) == 0)
            pthread_detach(thread);
    }

    bool shutdown_within(stint_shutdown how, std::uint64_t timeout_ns)
    {
        int error = stint_pool_shutdown(pool_, how, timeout_ns);
        if (error != ETIMEDOUT)
            detail::check(error, "stint_pool_shutdown");
        return error == 0;
    }

    stint_pool *pool_ = nullptr;
};

} // namespace stint

#endif
