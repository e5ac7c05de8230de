/* SPDX-License-Identifier: MIT
 *
 * What a C++ task is submitted with: tokens, accounts, options. Part of stint.hpp. Any thread; the objects themselves
 * are like other C++ objects: one thread at a time changes them. */
#ifndef STINT_OPTIONS_HPP
#define STINT_OPTIONS_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <system_error>
#include <utility>

#include <stint/account.h>
#include <stint/pool.h>
#include <stint/task.h>
#include <stint/token.h>

namespace stint
{

namespace detail
{

inline void check(int error, const char *what)
{
    if (error != 0)
        throw std::system_error(error, std::generic_category(), what);
}

/* 0 for what is not in the future; the maximum for what is too long. */
template <class Rep, class Period> std::uint64_t nanoseconds(std::chrono::duration<Rep, Period> time)
{
    constexpr double max = 9.2e18;
    if (std::chrono::duration<double, std::nano>(time).count() >= max)
        return std::numeric_limits<std::uint64_t>::max();
    auto count = std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
    return count > 0 ? static_cast<std::uint64_t>(count) : 0;
}

} // namespace detail

/* A token: stint/token.h. Move-only; one that has been moved from is never set. Its constructor throws
 * std::system_error. */
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
    [[nodiscard]] Token child() const
    {
        return Token(token_);
    }
    void set() const noexcept
    {
        stint_token_set(token_);
    }
    [[nodiscard]] bool is_set() const noexcept
    {
        return stint_token_is_set(token_);
    }
    /* A descriptor that is readable when it is set; it belongs to the token. Throws std::system_error. */
    [[nodiscard]] int fd() const
    {
        int descriptor = -1;
        detail::check(stint_token_fd(token_, &descriptor), "stint_token_fd");
        return descriptor;
    }
    [[nodiscard]] stint_token *get() const noexcept
    {
        return token_;
    }

  private:
    explicit Token(stint_token *parent)
    {
        detail::check(stint_token_create(parent, &token_), "stint_token_create");
    }

    stint_token *token_ = nullptr;
};

class Completions;
template <class T> class Context;

/* The limits of an account, one call for each; what is not set is not limited. */
class AccountLimits
{
  public:
    /* Bytes its tasks may allocate in all, for ever. */
    AccountLimits &allocation(std::size_t bytes) noexcept
    {
        limits_.allocation = bytes;
        return *this;
    }
    /* Bytes its running tasks may hold at once. */
    AccountLimits &memory(std::size_t bytes) noexcept
    {
        limits_.memory = bytes;
        return *this;
    }
    /* Tasks that may run at once. */
    AccountLimits &running(unsigned tasks) noexcept
    {
        limits_.running = tasks;
        return *this;
    }
    /* Tell the program when they have used more than so many hundredths of a limit: stint_warnings_set. */
    AccountLimits &warn(unsigned percent) noexcept
    {
        limits_.warn = percent;
        return *this;
    }

    /* Tasks that may wait in pools' queues at once. */
    AccountLimits &waiting(std::size_t tasks) noexcept
    {
        limits_.waiting = tasks;
        return *this;
    }

    /* Its share of the time of a pool's workers: 1 to 10000, where 100 is what others have. */
    AccountLimits &weight(unsigned weight) noexcept
    {
        limits_.weight = weight;
        return *this;
    }
    /* Copied when the account is made. */
    AccountLimits &name(const char *name) noexcept
    {
        limits_.name = name;
        return *this;
    }
    [[nodiscard]] const stint_account_limits &get() const noexcept
    {
        return limits_;
    }

  private:
    stint_account_limits limits_ = STINT_ACCOUNT_LIMITS_INIT;
};

/* An account: stint/account.h. Move-only; tasks have references of their own. Its constructor and usage throw
 * std::system_error. */
class Account
{
  public:
    explicit Account(const AccountLimits &limits = AccountLimits()) : Account(nullptr, limits)
    {
    }
    ~Account()
    {
        stint_account_release(account_);
    }
    Account(Account &&other) noexcept : account_(std::exchange(other.account_, nullptr))
    {
    }
    Account &operator=(Account &&other) noexcept
    {
        std::swap(account_, other.account_);
        return *this;
    }

    /* An account below this one. */
    [[nodiscard]] Account child(const AccountLimits &limits = AccountLimits()) const
    {
        return Account(account_, limits);
    }
    [[nodiscard]] stint_account_usage usage() const
    {
        stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
        detail::check(stint_account_read(account_, &usage), "stint_account_read");
        return usage;
    }
    [[nodiscard]] const char *name() const noexcept
    {
        return stint_account_name(account_);
    }
    [[nodiscard]] stint_account *get() const noexcept
    {
        return account_;
    }

  private:
    Account(stint_account *parent, const AccountLimits &limits)
    {
        detail::check(stint_account_create(parent, &limits.get(), &account_), "stint_account_create");
    }

    stint_account *account_ = nullptr;
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
    /* From the submission. Zero or less: the time is up, and the task ends without having been started. */
    template <class Rep, class Period> Options &wall(std::chrono::duration<Rep, Period> time) noexcept
    {
        options_.budget.wall_ns = limit(time);
        return *this;
    }
    /* The same, until a time. */
    template <class Clock, class Duration> Options &deadline(std::chrono::time_point<Clock, Duration> time) noexcept
    {
        return wall(time - Clock::now());
    }
    /* From the start of its function. */
    template <class Rep, class Period> Options &run_time(std::chrono::duration<Rep, Period> time) noexcept
    {
        options_.budget.run_ns = limit(time);
        return *this;
    }
    /* Of processor time. */
    template <class Rep, class Period> Options &cpu(std::chrono::duration<Rep, Period> time) noexcept
    {
        options_.budget.cpu_ns = limit(time);
        return *this;
    }
    /* The token and the account must live until the task is submitted, or for as long as run() runs. */
    Options &token(const Token &token) noexcept
    {
        options_.token = token.get();
        return *this;
    }
    Options &account(const Account &account) noexcept
    {
        return this->account(account.get());
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
    Options &priority(stint_priority priority) noexcept
    {
        options_.priority = priority;
        return *this;
    }
    /* STINT_UNTIMED, STINT_COMMIT, STINT_ALLOW_UNMETERED: stint/task.h. */
    Options &flags(unsigned flags) noexcept
    {
        options_.flags = flags;
        return *this;
    }
    Options &wipe(bool on = true) noexcept
    {
        options_.wipe = on;
        return *this;
    }
    /* Roll back what it leaves if it ends Ok too. For functions whose result owns nothing: a value that does would
     * point to what is gone. */
    Options &discard(bool on = true) noexcept
    {
        options_.discard = on;
        return *this;
    }
    /* What belongs to its request: a Context's, or NULL. It must live until the task is submitted. */
    Options &context(stint_context *context) noexcept
    {
        options_.context = context;
        return *this;
    }
    template <class T> Options &context(const Context<T> &context) noexcept
    {
        return this->context(context.handle());
    }
    /* Leave a completion with this data in the queue when the task has resolved. */
    Options &completions(stint_completions *queue, void *data = nullptr) noexcept
    {
        options_.completions = queue;
        options_.data = data;
        return *this;
    }
    Options &completions(const Completions &queue, void *data = nullptr) noexcept;
    /* What is told of it if it does not end well: stint_future_report, of the future's handle. */
    Options &report(stint_report_level level) noexcept
    {
        options_.report = level;
        return *this;
    }
    /* Samples a word of what it allocates, for that of the level STINT_REPORT_HEAP. */
    Options &sample_rate(double rate) noexcept
    {
        options_.sample_rate = rate;
        return *this;
    }

    /* Tell the program when the task has used more than so many hundredths of a limit: stint_warnings_set. */
    Options &warn(unsigned percent) noexcept
    {
        options_.warn = percent;
        return *this;
    }

    [[nodiscard]] const stint_options &get() const noexcept
    {
        return options_;
    }
    /* Whether a limit of time was given that is up. */
    [[nodiscard]] bool is_expired() const noexcept
    {
        return expired_;
    }

  private:
    /* 0 would be no limit. */
    template <class Rep, class Period> std::uint64_t limit(std::chrono::duration<Rep, Period> time) noexcept
    {
        std::uint64_t count = detail::nanoseconds(time);
        expired_ = expired_ || count == 0;
        return count > 0 ? count : 1;
    }

    stint_options options_ = STINT_OPTIONS_INIT;
    bool expired_ = false;
};

/* The options of a pool, one call for each; see stint/pool.h. */
class PoolOptions
{
  public:
    PoolOptions &workers(unsigned workers) noexcept
    {
        options_.workers = workers;
        return *this;
    }
    PoolOptions &queue_capacity(std::size_t tasks) noexcept
    {
        options_.queue_capacity = tasks;
        return *this;
    }
    PoolOptions &name(const char *name) noexcept
    {
        options_.name = name;
        return *this;
    }
    PoolOptions &pinned(bool on = true) noexcept
    {
        options_.pinned = on;
        return *this;
    }
    /* 0: none. */
    PoolOptions &substitutes(unsigned substitutes) noexcept
    {
        options_.substitutes = substitutes != 0 ? substitutes : STINT_NO_SUBSTITUTES;
        return *this;
    }
    PoolOptions &flags(unsigned flags) noexcept
    {
        options_.flags = flags;
        return *this;
    }
    PoolOptions &hold_near_memory_limit(bool on = true) noexcept
    {
        options_.hold_near_memory_limit = on;
        return *this;
    }
    /* Report tasks that run so much longer than they may: stint_pool_options.overdue_ns. */
    template <class Rep, class Period>
    PoolOptions &overdue(std::chrono::duration<Rep, Period> time, stint_overdue_fn *on_overdue = nullptr,
                         void *arg = nullptr) noexcept
    {
        options_.overdue_ns = detail::nanoseconds(time);
        options_.on_overdue = on_overdue;
        options_.overdue_arg = arg;
        return *this;
    }
    /* Called on the thread of each worker and substitute as it begins and as it ends; either may be NULL. */
    PoolOptions &tell(stint_worker_fn *begins, stint_worker_fn *ends, void *data = nullptr) noexcept
    {
        options_.worker_begins = begins;
        options_.worker_ends = ends;
        options_.worker_data = data;
        return *this;
    }
    /* Bytes of stack of each worker and each substitute. */
    PoolOptions &stack_size(size_t bytes) noexcept
    {
        options_.stack_size = bytes;
        return *this;
    }
    /* What is told of its tasks that do not say it themselves. */
    PoolOptions &report(stint_report_level level) noexcept
    {
        options_.report = level;
        return *this;
    }
    operator const stint_pool_options &() const noexcept
    {
        return options_;
    }

  private:
    stint_pool_options options_ = STINT_POOL_OPTIONS_INIT;
};

} // namespace stint

#endif
