/* SPDX-License-Identifier: MIT
 *
 * Fork and join inside a C++ task: stint/fork.h with values, exceptions and destructors. Part of stint.hpp.
 *
 *     #include <cstdio>
 *     #include <stint/stint.hpp>
 *
 *     static long fib(int n)
 *     {
 *         if (n < 2)
 *             return n;
 *         stint::Fork left([n] { return fib(n - 1); });
 *         long right = fib(n - 2);
 *         return left.join() + right;
 *     }
 *
 *     int main()
 *     {
 *         stint::Pool pool;
 *         std::printf("%ld\n", pool.submit([] { return fib(20); }).get());
 *     }
 *
 * Where something is thrown before the join, the fork is taken back, or waited for, before its frame goes. */
#ifndef STINT_FORK_HPP
#define STINT_FORK_HPP

#include <cerrno>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include <stint/detail/outcome.hpp>
#include <stint/fork.h>

namespace stint
{

/* A fork. A local variable, made and joined on the same thread, in the same task. Its constructor throws
 * std::system_error. */
template <class F> class [[nodiscard]] Fork
{
    using result = std::invoke_result_t<F &>;
    static_assert(!std::is_reference_v<result>, "return a pointer");

  public:
    explicit Fork(F function) : function_(std::move(function))
    {
        detail::check(stint_fork(&subtask_, call, this), "stint_fork");
    }
    ~Fork()
    {
        stint_fork_drop(&subtask_);
    }
    Fork(const Fork &) = delete;
    Fork &operator=(const Fork &) = delete;

    /* Once: what the function returned, here or elsewhere; or throws what it threw. Throws std::system_error if it did
     * not come to its end; ECANCELED: the task is being interrupted. */
    result join()
    {
        int error = stint_join(&subtask_, nullptr);
        if (thrown_ != nullptr)
            std::rethrow_exception(std::move(thrown_));
        detail::check(error, "stint_join");
        if constexpr (!std::is_void_v<result>)
            return std::move(*value_);
    }

  private:
    struct nothing {
    };

    static int call(void *fork, void **)
    {
        auto *self = static_cast<Fork *>(fork);
        try {
            if constexpr (std::is_void_v<result>)
                self->function_();
            else
                self->value_.emplace(self->function_());
            return 0;
        } catch (...) {
            detail::let_unwinds_pass();
            self->thrown_ = std::current_exception();
            return ECANCELED;
        }
    }

    F function_;
    std::optional<std::conditional_t<std::is_void_v<result>, nothing, result>> value_;
    std::exception_ptr thrown_;
    stint_subtask subtask_;
};

/* Call all of them, in no particular order and perhaps at once. Throws what one of them has thrown, when all have
 * ended; and std::system_error, as Fork::join. */
template <class F> void invoke(F &&function)
{
    std::forward<F>(function)();
}
template <class F, class... G> void invoke(F &&first, G &&...others)
{
    Fork fork([&] { invoke(others...); });
    first();
    fork.join();
}

} // namespace stint

#endif
