/* SPDX-License-Identifier: MIT
 *
 * Groups for C++: stint/future.h. Part of stint.hpp. */
#ifndef STINT_GROUP_HPP
#define STINT_GROUP_HPP

#include <cerrno>
#include <chrono>
#include <utility>

#include <stint/detail/pool.hpp>
#include <stint/detail/when.hpp>
#include <stint/future.h>

namespace stint
{

/* Tasks that are waited for together; they may add others. Move-only. When it goes, its tasks go on: what they refer to
 * must live as long as they. Its functions throw std::system_error, but for cancel. */
class Group
{
  public:
    Group()
    {
        detail::check(stint_group_create(&group_), "stint_group_create");
    }
    ~Group()
    {
        stint_group_release(group_);
    }
    Group(Group &&other) noexcept : group_(std::exchange(other.group_, nullptr))
    {
    }
    Group &operator=(Group &&other) noexcept
    {
        std::swap(group_, other.group_);
        return *this;
    }

    /* As Pool::submit, as one of the group; its value is destroyed when it has ended. */
    template <class F> void submit(Pool &pool, F &&function, const Options &options = Options()) const
    {
        auto future = pool.submit(std::forward<F>(function), options);
        add(future);
        future.detach();
    }
    /* The future stays the caller's. */
    template <class T> void add(const Future<T> &future) const
    {
        detail::check(stint_group_add(group_, future.handle()), "stint_group_add");
    }
    /* Wait until the group is idle: the outcome that stint_group_wait fills. Its payload lives as long as the group.
     * EDEADLK: the calling task is one of the group. */
    [[nodiscard]] stint_outcome outcome() const
    {
        stint_outcome outcome;
        detail::check(stint_group_wait(group_, &outcome), "stint_group_wait");
        return outcome;
    }
    /* The same; and throw stint::error or stint::cancelled for the first that did not end Ok. */
    void wait() const
    {
        stint_outcome raw = outcome();
        if (raw.status == STINT_ERROR)
            throw error(raw, stint_reason_name(raw.reason), Payload(raw));
        if (raw.status == STINT_CANCELLED)
            throw cancelled(raw, stint_reason_name(raw.reason));
    }
    /* Wait at most so long. Whether it was idle in time. */
    template <class Rep, class Period> bool wait_for(std::chrono::duration<Rep, Period> time) const
    {
        int error = stint_group_wait_for(group_, detail::nanoseconds(time), nullptr);
        if (error != ETIMEDOUT)
            detail::check(error, "stint_group_wait_for");
        return error == 0;
    }
    /* A future that resolves when the group is idle next. Cancelling it does nothing. */
    [[nodiscard]] All idle() const
    {
        stint_future *future = nullptr;
        detail::check(stint_group_when_idle(group_, &future), "stint_group_when_idle");
        return All(future);
    }
    /* Cancel all that are in it now. */
    void cancel() const noexcept
    {
        stint_group_cancel(group_);
    }
    [[nodiscard]] stint_group *handle() const noexcept
    {
        return group_;
    }

  private:
    stint_group *group_ = nullptr;
};

} // namespace stint

#endif
