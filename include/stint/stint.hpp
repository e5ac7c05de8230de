/* SPDX-License-Identifier: MIT
 *
 * stint for C++17: tasks that are lambdas, futures that hold their values, and objects that give back what they own. All
 * of it is in headers; programs link the same library. docs/cpp.md is the guide.
 *
 *     stint::Pool pool;
 *     auto future = pool.submit([] { return parse(document); }, stint::Options().memory(64 << 20));
 *     Tree tree = future.get();
 *
 * A task ends in one of three ways. It returned: its value, and the memory the value owns, is the caller's. It threw, or
 * passed a limit: get() throws stint::error, with the reason and the exception's message. It was cancelled: get() throws
 * stint::cancelled. In the last two all that it allocated is gone, the exception object too; the message was copied.
 *
 * Tasks are interrupted by STINT_UNWIND here unless Options says otherwise: destructors run. With STINT_JUMP they do not:
 * then only what a Guard releases is released, and memory.
 *
 * Waiting, the end of a Mask and of a Guard, and every allocation may be where a task is interrupted. So the destructors
 * of Mask and Guard may throw; a Future's does not, and makes interrupts wait. */
#ifndef STINT_STINT_HPP
#define STINT_STINT_HPP

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <system_error>
#include <type_traits>
#include <utility>

#include <stint/outcome.hpp>
#include <stint/stint.h>

namespace stint
{

namespace detail
{

inline void check(int error, const char *what)
{
    if (error != 0)
        throw std::system_error(error, std::generic_category(), what);
}

template <class Rep, class Period> std::uint64_t nanoseconds(std::chrono::duration<Rep, Period> time)
{
    auto count = std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
    return count > 0 ? static_cast<std::uint64_t>(count) : 0;
}

/* Whether it has ended in time. */
template <class Rep, class Period> bool wait_for(stint_future *future, std::chrono::duration<Rep, Period> time)
{
    int error = stint_future_wait_for(future, nanoseconds(time), nullptr);
    if (error == ETIMEDOUT)
        return false;
    check(error, "stint_future_wait_for");
    return true;
}

/* What is made meanwhile outlives the task that makes it, if there is one. */
struct keep {
    keep() noexcept
    {
        stint_keep_begin();
    }
    ~keep() noexcept(false)
    {
        stint_keep_end();
    }
};

} // namespace detail

/* A token: stint/token.h. Move-only; an empty one, which has been moved from, is never set. */
class Token
{
  public:
    Token() : Token(static_cast<stint_token *>(nullptr))
    {
    }
    ~Token()
    {
        stint_token_release(token_);
    }
    Token(Token &&other) noexcept : token_(std::exchange(other.token_, nullptr))
    {
    }
    Token &operator=(Token &&other) noexcept
    {
        std::swap(token_, other.token_);
        return *this;
    }

    /* A token that is set when this one is. */
    Token child() const
    {
        return Token(token_);
    }
    void set() const noexcept
    {
        stint_token_set(token_);
    }
    bool is_set() const noexcept
    {
        return stint_token_is_set(token_);
    }
    stint_token *get() const noexcept
    {
        return token_;
    }

  private:
    explicit Token(stint_token *parent)
    {
        detail::check(stint_token_create(&token_, parent), "stint_token_create");
    }

    stint_token *token_ = nullptr;
};

/* The options of a task, one call for each: Options().memory(64 << 20).wall(std::chrono::seconds(1)). */
class Options
{
  public:
    Options() noexcept
    {
        options_.on_interrupt = STINT_UNWIND;
    }
    Options(const stint_options &options) noexcept : options_(options)
    {
    }

    /* Bytes allocated in all. */
    Options &allocation(std::size_t bytes) noexcept
    {
        options_.budget.allocation = bytes;
        return *this;
    }
    /* Bytes held at once. */
    Options &memory(std::size_t bytes) noexcept
    {
        options_.budget.memory = bytes;
        return *this;
    }
    template <class Rep, class Period> Options &wall(std::chrono::duration<Rep, Period> time) noexcept
    {
        options_.budget.wall_ns = detail::nanoseconds(time);
        return *this;
    }
    /* The token must live until the task is submitted, or for as long as run() runs. */
    Options &token(const Token &token) noexcept
    {
        options_.token = token.get();
        return *this;
    }
    Options &account(stint_account *account) noexcept
    {
        options_.account = account;
        return *this;
    }
    Options &on_interrupt(stint_on_interrupt how) noexcept
    {
        options_.on_interrupt = how;
        return *this;
    }
    Options &grace(std::size_t bytes) noexcept
    {
        options_.grace = bytes;
        return *this;
    }
    /* Not copied: it must outlive the task. */
    Options &name(const char *name) noexcept
    {
        options_.name = name;
        return *this;
    }
    Options &preemptible(bool on = true) noexcept
    {
        options_.preemptible = on;
        return *this;
    }
    const stint_options &get() const noexcept
    {
        return options_;
    }

  private:
    stint_options options_ = STINT_OPTIONS_INIT;
};

/* Run function() here, in a scope of its own. The function is moved, or copied, into the task, as std::async does. */
template <class F> Outcome<detail::result<F>> run(F &&function, const Options &options = Options())
{
    detail::record_of<std::decay_t<F>> record(std::forward<F>(function));
    stint_outcome outcome;
    detail::check(
        stint_run(detail::record_base::enter, static_cast<detail::record_base *>(&record), &options.get(), &outcome),
        "stint_run");
    return { outcome, record };
}

/* The future of a submitted task. Move-only. A Future that goes before its task has ended cancels the task and waits for
 * it, like std::jthread: what the task refers to lives at least as long as its Future, if it was made before. */
template <class T = void> class Future
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
    bool valid() const noexcept
    {
        return future_ != nullptr;
    }
    bool ready() const noexcept
    {
        return stint_future_ready(future_);
    }
    void cancel() const noexcept
    {
        stint_future_cancel(future_);
    }
    /* Until the task has ended. Throws std::system_error: EINVAL without a task, EDEADLK in the task itself. */
    void wait() const
    {
        detail::check(stint_future_wait(future_, nullptr), "stint_future_wait");
    }
    /* Whether it has ended in time. */
    template <class Rep, class Period> bool wait_for(std::chrono::duration<Rep, Period> time) const
    {
        return detail::wait_for(future_, time);
    }
    /* Have callback(outcome) called, with a const stint_outcome &, when the task has ended: stint_future_then says where,
     * and what it may do. It is moved, or copied, and must not throw. It does not touch the value, which is get()'s. Given
     * in a task, it outlives that, but not what its captures own: that is the task's. */
    template <class F> void then(F &&callback) const
    {
        using Callback = std::decay_t<F>;
        static_assert(std::is_invocable_v<Callback &, const stint_outcome &>,
                      "a callback takes a const stint_outcome &");
        std::unique_ptr<Callback> kept;
        {
            detail::keep region;
            kept.reset(new Callback(std::forward<F>(callback)));
        }
        detail::check(stint_future_then(
                          future_,
                          [](stint_future *, const stint_outcome *outcome, void *function) noexcept {
                              (*std::unique_ptr<Callback>(static_cast<Callback *>(function)))(*outcome);
                          },
                          kept.get()),
                      "stint_future_then");
        static_cast<void>(kept.release()); /* it frees itself */
    }
    /* Wait, and take the outcome: valid() is false afterwards. */
    Outcome<T> outcome()
    {
        stint_outcome raw;
        detail::check(stint_future_wait(future_, &raw), "stint_future_wait");
        auto record = std::move(record_);
        stint_future_release(std::exchange(future_, nullptr));
        return { raw, *record };
    }
    /* Wait, and take the value; or throw stint::error or stint::cancelled. */
    T get()
    {
        return outcome().get();
    }
    stint_future *handle() const noexcept
    {
        return future_;
    }

  private:
    friend class Pool;
    Future(std::unique_ptr<detail::record<T>> record, stint_future *future) noexcept
        : record_(std::move(record)), future_(future)
    {
    }

    void abandon() noexcept
    {
        if (future_ == nullptr)
            return;
        stint_mask();
        stint_outcome raw;
        stint_future_cancel(future_);
        if (stint_future_wait(future_, &raw) == 0 && raw.status == STINT_OK)
            record_->take();
        stint_future_release(std::exchange(future_, nullptr));
        record_.reset();
        stint_unmask();
    }

    std::unique_ptr<detail::record<T>> record_;
    stint_future *future_ = nullptr;
};

/* A pool: stint/pool.h. Move-only. A Pool that goes cancels what runs and waits for its workers. */
class Pool
{
  public:
    explicit Pool(const stint_pool_options &options = STINT_POOL_OPTIONS_INIT)
    {
        detail::check(stint_pool_create(&pool_, &options), "stint_pool_create");
    }
    ~Pool()
    {
        stint_pool_destroy(pool_);
    }
    Pool(Pool &&other) noexcept : pool_(std::exchange(other.pool_, nullptr))
    {
    }
    Pool &operator=(Pool &&other) noexcept
    {
        std::swap(pool_, other.pool_);
        return *this;
    }

    /* Run function() as a task. Throws std::system_error; EAGAIN: the queue is full, wait for something and try again. */
    template <class F> Future<detail::result<F>> submit(F &&function, const Options &options = Options())
    {
        std::unique_ptr<detail::record<detail::result<F>>> record;
        {
            detail::keep region;
            record.reset(new detail::record_of<std::decay_t<F>>(std::forward<F>(function)));
        }
        stint_future *future = nullptr;
        detail::check(stint_submit(pool_, detail::record_base::enter, static_cast<detail::record_base *>(record.get()),
                                   &options.get(), &future),
                      "stint_submit");
        return { std::move(record), future };
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
    bool shutdown_within(stint_shutdown how, std::uint64_t timeout_ns)
    {
        int error = stint_pool_shutdown(pool_, how, timeout_ns);
        if (error != ETIMEDOUT)
            detail::check(error, "stint_pool_shutdown");
        return error == 0;
    }

    stint_pool *pool_ = nullptr;
};

/* Interrupts wait for as long as there is one. */
class Mask
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

/* Calls release() once: at the end of its block, or when the task is interrupted, in STINT_JUMP too. release must not
 * throw. A local variable only: stint::Guard closes([&] { close(descriptor); }); */
template <class F> class Guard
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
    static void call(void *guard) noexcept
    {
        static_cast<Guard *>(guard)->release_();
    }

    stint_guard guard_;
    bool armed_ = true;
    F release_;
};

} // namespace stint

#include <stint/when.hpp>

#endif
