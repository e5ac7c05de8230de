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

#include <stint/future.hpp>
#include <stint/pool.h>

namespace stint
{

/* A pool: stint/pool.h. Move-only. A Pool that goes cancels what runs and waits for its workers; in one of its own tasks, or
 * in a callback, it has a thread of its own do that. */
class Pool
{
  public:
    explicit Pool(const stint_pool_options &options = STINT_POOL_OPTIONS_INIT)
    {
        detail::check(stint_pool_create(&pool_, &options), "stint_pool_create");
    }
    ~Pool()
    {
        if (stint_pool_destroy(pool_) == EDEADLK)
            destroy_elsewhere();
    }
    Pool(Pool &&other) noexcept : pool_(std::exchange(other.pool_, nullptr))
    {
    }
    Pool &operator=(Pool &&other) noexcept
    {
        std::swap(pool_, other.pool_);
        return *this;
    }

    /* Run function() as a task. Throws std::system_error; EAGAIN: the queue is full, wait for something and try again. When
     * it throws, the function is what it was. */
    template <class F> Future<detail::result<F>> submit(F &&function, const Options &options = Options())
    {
        return put(std::forward<F>(function), options,
                   [this](stint_fn *entry, void *record, const stint_options *raw, stint_future **future) {
                       return stint_submit(pool_, entry, record, raw, future);
                   });
    }
    /* The same, but where the queue is full wait for a place, as stint_submit_wait does. ETIMEDOUT: in vain. */
    template <class F, class Rep, class Period>
    Future<detail::result<F>> submit_wait(F &&function, std::chrono::duration<Rep, Period> time,
                                          const Options &options = Options())
    {
        return put(std::forward<F>(function), options,
                   [this, time](stint_fn *entry, void *record, const stint_options *raw, stint_future **future) {
                       return stint_submit_wait(pool_, entry, record, raw, detail::nanoseconds(time), future);
                   });
    }

    /* Whether all workers have ended. Throws std::system_error; EDEADLK: in a task of this pool. */
    bool shutdown(stint_shutdown how)
    {
        return shutdown_within(how, STINT_FOREVER);
    }
    template <class Rep, class Period> bool shutdown(stint_shutdown how, std::chrono::duration<Rep, Period> time)
    {
        return shutdown_within(how, detail::nanoseconds(time));
    }
    unsigned workers() const noexcept
    {
        return stint_pool_workers(pool_);
    }
    stint_pool *handle() const noexcept
    {
        return pool_;
    }

  private:
    template <class F, class Submit>
    Future<detail::result<F>> put(F &&function, const Options &options, Submit submit)
    {
        using Callable = std::decay_t<F>;
        std::unique_ptr<detail::record_of<Callable>> record;
        {
            Keep region;
            record.reset(new detail::record_of<Callable>(std::forward<F>(function)));
        }
        stint_future *future = nullptr;
        int error =
            submit(detail::entry(options), static_cast<detail::record_base *>(record.get()), &options.get(), &future);
        if constexpr (std::is_same_v<F, Callable> && std::is_nothrow_move_constructible_v<Callable>) {
            if (error != 0)
                record->give_back(function);
        }
        detail::check(error, "stint_submit");
        return { std::move(record), future };
    }

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
