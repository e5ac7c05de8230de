/* SPDX-License-Identifier: MIT
 *
 * How a C++ task ends: what it returned, what it threw, and how either comes out of it. Part of stint.hpp, which
 * includes it. */
#ifndef STINT_OUTCOME_HPP
#define STINT_OUTCOME_HPP

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include <stint/detail/exception.h>
#include <stint/detail/options.hpp>
#include <stint/interrupt.h>
#include <stint/task.h>

namespace stint
{

/* The payload of a failed task: a copy of the bytes that it gave to stint::fail_with or stint_fail. Copies share
 * them. */
class Payload
{
  public:
    Payload() noexcept = default;
    explicit Payload(const stint_outcome &outcome)
    {
        if (outcome.payload != nullptr)
            bytes_ =
                std::make_shared<const std::string>(static_cast<const char *>(outcome.payload), outcome.payload_size);
    }
    /* Whether there is one. */
    explicit operator bool() const noexcept
    {
        return bytes_ != nullptr;
    }
    /* Empty without one. */
    [[nodiscard]] std::string_view bytes() const noexcept
    {
        return bytes_ != nullptr ? std::string_view(*bytes_) : std::string_view();
    }
    /* The value that it was given; nothing, if T has another size. */
    template <class T> [[nodiscard]] std::optional<T> as() const
    {
        static_assert(std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T>, "a payload is its bytes");
        if (bytes_ == nullptr || bytes_->size() != sizeof(T))
            return std::nullopt;
        T value;
        std::memcpy(&value, bytes_->data(), sizeof value);
        return value;
    }

  private:
    std::shared_ptr<const std::string> bytes_;
};

/* What get() throws for a task that did not return. what() is the message of the exception that the task threw, or else
 * the name of the reason: "memory-limit". For the reasons that only a walled task has (wall.h), payload() is a
 * stint_wall_death. */
class failure : public std::runtime_error
{
  public:
    failure(const stint_outcome &outcome, const char *message, Payload payload = Payload())
        : std::runtime_error(message), outcome_(outcome), payload_(std::move(payload))
    {
        outcome_.payload = nullptr; /* the future's, which may be gone */
    }
    const Payload &payload() const noexcept
    {
        return payload_;
    }
    stint_reason reason() const noexcept
    {
        return outcome_.reason;
    }
    /* STINT_REASON_EXCEPTION: of a std::system_error the code, of std::bad_alloc ENOMEM, of any other exception -1. For
     * the other reasons as in stint_outcome. */
    int code() const noexcept
    {
        return outcome_.error;
    }
    const stint_usage &usage() const noexcept
    {
        return outcome_.usage;
    }

  private:
    stint_outcome outcome_;
    Payload payload_;
};

/* End the task with this error and a payload, a text or a struct without pointers, which survives the rollback
 * (stint_fail): payload() of what get() throws, and of the Outcome, has it. Throws a std::system_error, which the task
 * must not catch. */
[[noreturn]] inline void fail_with(int code, std::string_view payload)
{
    stint_fail(code, payload.data(), payload.size());
    throw std::system_error(code, std::generic_category());
}
template <class T, class = std::enable_if_t<std::is_trivially_copyable_v<T> && std::is_class_v<T> &&
                                            !std::is_convertible_v<const T &, std::string_view>>>
[[noreturn]] void fail_with(int code, const T &payload)
{
    fail_with(code, std::string_view(reinterpret_cast<const char *>(&payload), sizeof payload));
}

class error : public failure
{
    using failure::failure;
};

class cancelled : public failure
{
    using failure::failure;
};

namespace detail
{

/* First of all in a catch (...) block: interrupts and the end of the thread, which are no exceptions of C++, go on. */
inline void let_unwinds_pass()
{
    if (std::current_exception() == nullptr)
        throw;
}

/* What an exception says; an outcome has room for the beginning only. */
struct thrown_message {
    char text[256] = "";

    int take(int code, const char *what) noexcept
    {
        std::strncpy(text, what, sizeof text - 1);
        return stint_fail_thrown_(code != 0 ? code : -1, text);
    }
};

/* In a catch (...) block of a task's function, which is to return what this returns. */
inline int fail_thrown(thrown_message &message)
{
    let_unwinds_pass();
    try {
        throw;
    } catch (const failure &caught) {
        return message.take(caught.code(), caught.what());
    } catch (const std::system_error &caught) {
        return message.take(caught.code().value(), caught.what());
    } catch (const std::bad_alloc &caught) {
        return message.take(ENOMEM, caught.what());
    } catch (const std::exception &caught) {
        return message.take(-1, caught.what());
    } catch (...) {
        return message.take(-1, "an exception that is no std::exception");
    }
}

/* A task's record outside of its memory: what it threw says, and room for its value. What the value owns is in the
 * task's memory and is committed with it. */
class record_base
{
  public:
    record_base() = default;
    record_base(const record_base &) = delete;
    record_base &operator=(const record_base &) = delete;
    virtual ~record_base() = default;

    /* Empty, if it has thrown nothing here. */
    const char *message() const noexcept
    {
        return message_.text;
    }

    /* The stint_fn. The callable moves into the task, so that all that it may change there lives and dies there. No
     * exception leaves, but for the library's own. */
    static int enter(void *record, void **)
    {
        return static_cast<record_base *>(record)->guarded();
    }
    /* The same of a task whose time is up: until the clock says so too. */
    static int enter_expired(void *, void **)
    {
        auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(2);
        while (std::chrono::steady_clock::now() < end)
            ;
        return ETIMEDOUT;
    }

    /* The stint_fn of a turn of a series (Pool::submit_every): which is over when it leaves a value. */
    static int enter_turn(void *record, void **value)
    {
        auto *self = static_cast<record_base *>(record);
        int code = self->guarded();
        if (code == 0 && self->is_last_turn())
            *value = record;
        return code;
    }

    /* The task has ended Ok: a value that comes with the outcome is there from now on. Once, before take or drop. */
    virtual void arrive(const stint_outcome &) noexcept
    {
    }
    /* Destroy the value, which is there. */
    virtual void drop() noexcept = 0;

  protected:
    virtual void call() = 0;
    virtual bool is_last_turn() const noexcept
    {
        return false;
    }

  private:
    int guarded()
    {
        try {
            call();
            if (stint_finish())
                return 0;
            drop(); /* it is too late: what it owns besides memory would be lost */
            return ECANCELED;
        } catch (...) {
            return fail_thrown(message_);
        }
    }

    thrown_message message_;
};

/* T is what the task returns: a value, a reference or void. */
template <class T> class record : public record_base
{
  public:
    using stored = std::conditional_t<std::is_reference_v<T>, std::remove_reference_t<T> *, T>;

    /* Once, after Ok. */
    T take()
    {
        if constexpr (std::is_reference_v<T>) {
            return static_cast<T>(**place());
        } else {
            struct destroy {
                stored *value;
                ~destroy()
                {
                    value->~stored();
                }
            } after{ place() };
            return std::move(*after.value);
        }
    }

    void drop() noexcept override
    {
        place()->~stored();
    }

  protected:
    template <class F> void store(F &function)
    {
        if constexpr (std::is_reference_v<T>)
            ::new (static_cast<void *>(place_)) stored(std::addressof(function()));
        else
            ::new (static_cast<void *>(place_)) stored(function());
    }

  private:
    stored *place() noexcept
    {
        return std::launder(reinterpret_cast<stored *>(place_));
    }

    alignas(stored) unsigned char place_[sizeof(stored)];
};

template <> class record<void> : public record_base
{
  public:
    void take() noexcept
    {
    }
    void drop() noexcept override
    {
    }

  protected:
    template <class F> void store(F &function)
    {
        function();
    }
};

template <class F> using result = std::invoke_result_t<std::decay_t<F> &>;

template <class F> class record_of final : public record<result<F>>
{
  public:
    template <class G> explicit record_of(G &&function) : function_(std::forward<G>(function))
    {
    }

    /* The task was not submitted: what was moved from is what it was. */
    void give_back(F &from) noexcept
    {
        from.~F();
        ::new (static_cast<void *>(std::addressof(from))) F(std::move(function_));
    }

  private:
    void call() override
    {
        F function(std::move(function_));
        this->store(function);
    }

    F function_;
};

/* A series': each turn calls a copy of the function. */
template <class F> class record_of_series final : public record<void>
{
  public:
    template <class G> explicit record_of_series(G &&function) : function_(std::forward<G>(function))
    {
    }

  private:
    void call() override
    {
        F function(function_);
        if constexpr (std::is_void_v<result<F>>)
            function();
        else
            last_ = !function();
    }
    bool is_last_turn() const noexcept override
    {
        return last_;
    }

    const F function_;
    bool last_ = false;
};

template <class F> using next_result = std::invoke_result_t<std::decay_t<F> &, const stint_outcome &>;

/* Of a task that is given another's outcome. */
template <class F> class record_of_next final : public record<next_result<F>>
{
  public:
    template <class G> explicit record_of_next(G &&function) : function_(std::forward<G>(function))
    {
    }

    /* The stint_next_fn. */
    static int enter_next(const stint_outcome *outcome, void *record, void **value)
    {
        static_cast<record_of_next *>(static_cast<record_base *>(record))->outcome_ = outcome;
        return record_base::enter(record, value);
    }
    static int enter_expired_next(const stint_outcome *, void *record, void **value)
    {
        return record_base::enter_expired(record, value);
    }

  private:
    void call() override
    {
        F function(std::move(function_));
        auto given = [&]() -> next_result<F> { return function(*outcome_); };
        this->store(given);
    }

    F function_;
    const stint_outcome *outcome_ = nullptr;
};

inline stint_fn *entry(const Options &options) noexcept
{
    return options.is_expired() ? record_base::enter_expired : record_base::enter;
}

} // namespace detail

/* How a task ended: its value, or why there is none, for those who want no exception. */
template <class T> class Outcome
{
  public:
    explicit operator bool() const noexcept
    {
        return raw_.status == STINT_OK;
    }
    stint_status status() const noexcept
    {
        return raw_.status;
    }
    stint_reason reason() const noexcept
    {
        return raw_.reason;
    }
    /* See failure::code; 0 for Ok. */
    int code() const noexcept
    {
        return raw_.error;
    }
    const stint_usage &usage() const noexcept
    {
        return raw_.usage;
    }
    /* What failure::what() says; for Ok "none". At most 255 bytes. */
    const char *message() const noexcept
    {
        return message_.empty() ? stint_reason_name(raw_.reason) : message_.c_str();
    }

    /* What the task gave to stint::fail_with. */
    const Payload &payload() const noexcept
    {
        return payload_;
    }

    /* The value, moved out; or throws stint::error or stint::cancelled. */
    T get()
    {
        if (raw_.status == STINT_ERROR)
            throw error(raw_, message(), payload_);
        if (raw_.status == STINT_CANCELLED)
            throw cancelled(raw_, message(), payload_);
        if constexpr (std::is_reference_v<T>)
            return **value_;
        else if constexpr (!std::is_void_v<T>)
            return std::move(*value_);
    }

    /* For the functions of this header. */
    Outcome(const stint_outcome &raw, detail::record<T> &record) : raw_(raw), payload_(raw)
    {
        raw_.payload = nullptr; /* the future's, which may be gone */
        if (raw.status != STINT_OK) {
            message_ =
                raw.reason == STINT_REASON_EXCEPTION && *record.message() != '\0' ? record.message() : raw.message;
        } else if constexpr (std::is_void_v<T>) {
            value_.emplace();
        } else if constexpr (std::is_reference_v<T>) {
            value_ = std::addressof(record.take());
        } else {
            value_.emplace(record.take());
        }
    }

  private:
    struct nothing {
    };
    using stored = std::conditional_t<std::is_void_v<T>, nothing,
                                      std::conditional_t<std::is_reference_v<T>, std::remove_reference_t<T> *, T>>;

    stint_outcome raw_;
    Payload payload_;
    std::string message_;
    std::optional<stored> value_;
};

/* Run function() here, in a scope of its own. The function is moved, or copied, into the task, as std::async does.
 * Throws std::system_error with an error of stint_run. Any thread. */
template <class F> Outcome<detail::result<F>> run(F &&function, const Options &options = Options())
{
    detail::record_of<std::decay_t<F>> record(std::forward<F>(function));
    stint_outcome outcome;
    detail::check(
        stint_run(detail::entry(options), static_cast<detail::record_base *>(&record), &options.get(), &outcome),
        "stint_run");
    struct freed {
        const void *payload;
        ~freed()
        {
            std::free(const_cast<void *>(payload));
        }
    } after{ outcome.payload };
    return { outcome, record };
}

} // namespace stint

#endif
