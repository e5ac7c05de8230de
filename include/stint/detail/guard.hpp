/* SPDX-License-Identifier: MIT
 *
 * Objects for regions of C++ code: where interrupts are deferred, where blocks are the process's, where a task sleeps,
 * and what is released at their end. Part of stint.hpp. Local variables only, of the thread that makes them. */
#ifndef STINT_GUARD_HPP
#define STINT_GUARD_HPP

#include <utility>

#include <stint/interrupt.h>
#include <stint/memory.h>
#include <stint/pool.h>

namespace stint
{

/* Interrupts are deferred as long as it lives: stint_mask. */
class [[nodiscard]] Mask
{
  public:
    Mask() noexcept
    {
        stint_mask();
    }
    ~Mask() noexcept(false)
    {
        stint_unmask();
    }
    Mask(const Mask &) = delete;
    Mask &operator=(const Mask &) = delete;
};

/* What is allocated meanwhile is the process's and not the task's: it outlives a rollback (stint_keep_begin).
 * Interrupts are deferred too. */
class [[nodiscard]] Keep
{
  public:
    Keep() noexcept
    {
        stint_keep_begin();
    }
    ~Keep() noexcept(false)
    {
        stint_keep_end();
    }
    Keep(const Keep &) = delete;
    Keep &operator=(const Keep &) = delete;
};

/* The task may sleep meanwhile: a substitute worker takes its place (stint/pool.h). */
class [[nodiscard]] Blocking
{
  public:
    Blocking() noexcept
    {
        stint_blocking_begin();
    }
    ~Blocking() noexcept(false)
    {
        stint_blocking_end();
    }
    Blocking(const Blocking &) = delete;
    Blocking &operator=(const Blocking &) = delete;
};

/* Calls release() once: at the end of its block, or when the task is interrupted, in STINT_JUMP too. release
 * must not throw. stint::Guard closes([&] { close(descriptor); }); */
template <class F> class [[nodiscard]] Guard
{
  public:
    explicit Guard(F release) : release_(std::move(release))
    {
        stint_guard_push(&guard_, call, this);
    }
    ~Guard() noexcept(false)
    {
        if (armed_)
            stint_guard_pop(&guard_, true);
    }
    Guard(const Guard &) = delete;
    Guard &operator=(const Guard &) = delete;

    /* Take it off: release is not called. */
    void dismiss() noexcept
    {
        armed_ = false;
        stint_guard_pop(&guard_, false);
    }

  private:
    static void call(void *guard)
    {
        static_cast<Guard *>(guard)->release_();
    }

    stint_guard guard_;
    bool armed_ = true;
    F release_;
};

} // namespace stint

#endif
