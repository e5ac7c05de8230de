/* SPDX-License-Identifier: MIT
 *
 * Serial queues for C++: stint/later.h. Part of stint.hpp. */
#ifndef STINT_SERIAL_HPP
#define STINT_SERIAL_HPP

#include <cstddef>
#include <utility>

#include <stint/detail/pool.hpp>
#include <stint/later.h>

namespace stint
{

/* Tasks of a pool that run one at a time, in the order in which they are submitted. Move-only; when it goes, what has
 * been submitted goes on. Its functions throw std::system_error. Any thread. */
class Serial
{
  public:
    /* At most max_waiting tasks wait for their turn; 0: any number. */
    explicit Serial(const Pool &pool, std::size_t max_waiting = 0)
    {
        detail::check(stint_serial_create(pool.handle(), max_waiting, &serial_), "stint_serial_create");
    }
    ~Serial()
    {
        stint_serial_release(serial_);
    }
    Serial(Serial &&other) noexcept : serial_(std::exchange(other.serial_, nullptr))
    {
    }
    Serial &operator=(Serial &&other) noexcept
    {
        std::swap(serial_, other.serial_);
        return *this;
    }

    /* As Pool::submit; EAGAIN: so many wait already. */
    template <class F> Future<detail::result<F>> submit(F &&function, const Options &options = Options())
    {
        return detail::submission::put(
            std::forward<F>(function), options,
            [this](stint_fn *entry, void *record, const stint_options *raw, stint_future **future) {
                return stint_serial_submit(serial_, entry, record, raw, future);
            });
    }
    [[nodiscard]] stint_serial *handle() const noexcept
    {
        return serial_;
    }

  private:
    stint_serial *serial_ = nullptr;
};

} // namespace stint

#endif
