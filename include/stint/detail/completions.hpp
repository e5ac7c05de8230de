/* SPDX-License-Identifier: MIT
 *
 * A completion queue for C++: stint/future.h. Part of stint.hpp. */
#ifndef STINT_COMPLETIONS_HPP
#define STINT_COMPLETIONS_HPP

#include <cstddef>
#include <utility>

#include <stint/detail/future.hpp>
#include <stint/future.h>

namespace stint
{

/* Many futures, one file descriptor. Move-only. Its functions throw std::system_error. Any thread, as in
 * stint/future.h. */
class Completions
{
  public:
    Completions()
    {
        detail::check(stint_completions_create(&queue_), "stint_completions_create");
    }
    ~Completions()
    {
        stint_completions_destroy(queue_);
    }
    Completions(Completions &&other) noexcept : queue_(std::exchange(other.queue_, nullptr))
    {
    }
    Completions &operator=(Completions &&other) noexcept
    {
        std::swap(queue_, other.queue_);
        return *this;
    }

    /* Leave a completion with this data when the future has resolved. The future stays the caller's. */
    template <class T> void add(const Future<T> &future, void *data = nullptr)
    {
        detail::check(stint_completions_add(queue_, future.handle(), data), "stint_completions_add");
    }
    /* For poll and epoll: readable while there are completions. It belongs to the queue. */
    [[nodiscard]] int fd() const noexcept
    {
        return stint_completions_fd(queue_);
    }
    /* Take out what is there, up to max; returns how many. */
    std::size_t read(stint_completion *completions, std::size_t max)
    {
        std::size_t count = 0;
        detail::check(stint_completions_read(queue_, completions, max, &count), "stint_completions_read");
        return count;
    }
    /* Call function(completion) for each that is there. */
    template <class F> void drain(F &&function)
    {
        stint_completion completion;
        while (read(&completion, 1) == 1)
            function(static_cast<const stint_completion &>(completion));
    }
    [[nodiscard]] stint_completions *handle() const noexcept
    {
        return queue_;
    }

  private:
    stint_completions *queue_ = nullptr;
};

inline Options &Options::completions(const Completions &queue, void *data) noexcept
{
    return completions(queue.handle(), data);
}

} // namespace stint

#endif
