/* SPDX-License-Identifier: MIT
 *
 * Walls for C++: stint/wall.h. Part of stint.hpp.
 *
 *     #include <cstdio>
 *     #include <stint/stint.hpp>
 *     #include <string>
 *
 *     int main()
 *     {
 *         auto parse = [](const void *input, std::size_t size, stint_reply *reply) { // in the child
 *             return stint_reply_write(reply, input, size);
 *         };
 *         stint::Wall wall; // before any thread is started
 *         stint::Pool pool;
 *         auto future = wall.submit(pool, parse, std::string("hello"), stint::Options().memory(64 << 20));
 *         stint::WallReply reply = future.get();
 *         std::printf("%s\n", std::string(reply.view()).c_str());
 *     }
 *
 * parse is a stint_wall_fn, or a lambda that captures nothing. It runs in the child. A lambda may throw: then
 * get() throws stint::error with the message, STINT_MESSAGE_SIZE - 1 bytes of it, and STINT_REASON_EXCEPTION. A
 * stint_wall_fn that throws ends its process: STINT_REASON_CRASH. */
#ifndef STINT_WALL_HPP
#define STINT_WALL_HPP

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <memory>
#include <new>
#include <pthread.h>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <stint/detail/future.hpp>
#include <stint/detail/pool.hpp>
#include <stint/interrupt.h>
#include <stint/wall.h>

namespace stint
{

/* The reply of a walled task: bytes, which it owns. Move-only. */
class WallReply
{
  public:
    WallReply() noexcept = default;
    /* A block that was made by malloc. */
    WallReply(void *block, std::size_t size) noexcept : block_(static_cast<char *>(block)), size_(size)
    {
    }
    WallReply(WallReply &&other) noexcept
        : block_(std::move(other.block_)), size_(std::exchange(other.size_, std::size_t(0)))
    {
    }
    WallReply &operator=(WallReply &&other) noexcept
    {
        block_ = std::move(other.block_);
        size_ = std::exchange(other.size_, std::size_t(0));
        return *this;
    }

    [[nodiscard]] const char *data() const noexcept
    {
        return block_.get();
    }
    [[nodiscard]] char *data() noexcept
    {
        return block_.get();
    }
    [[nodiscard]] std::size_t size() const noexcept
    {
        return size_;
    }
    [[nodiscard]] bool empty() const noexcept
    {
        return size_ == 0;
    }
    [[nodiscard]] const char *begin() const noexcept
    {
        return data();
    }
    [[nodiscard]] const char *end() const noexcept
    {
        return data() + size_;
    }
    [[nodiscard]] std::string_view view() const noexcept
    {
        return { data(), size_ };
    }
    operator std::string_view() const noexcept
    {
        return view();
    }
    /* The block, which is the caller's now, to be freed with free(). */
    [[nodiscard]] void *release() noexcept
    {
        size_ = 0;
        return block_.release();
    }

  private:
    struct freed {
        void operator()(char *block) const noexcept
        {
            std::free(block);
        }
    };

    std::unique_ptr<char, freed> block_;
    std::size_t size_ = 0;
};

namespace detail
{

/* Whether a C is a view of elements that are somebody else's: std::string_view, std::span and their like. */
template <class C>
constexpr bool is_view = std::is_trivially_copyable_v<C> &&
    std::is_constructible_v<C, decltype(std::declval<const C &>().data()), decltype(std::declval<const C &>().size())>;

} // namespace detail

/* The input of a walled task: what has data() and size(), with elements that are their bytes. A container that is moved
 * in is kept until the outcome of the task has been taken. Anything else is referred to, and has to stay until the task
 * has ended, as what a lambda captures by reference has. Copies share what was moved in. */
class WallInput
{
  public:
    WallInput() noexcept = default;
    WallInput(const void *data, std::size_t size) noexcept : data_(data), size_(size)
    {
    }
    WallInput(const char *text) noexcept : WallInput(std::string_view(text))
    {
    }
    template <class C, class = std::enable_if_t<!std::is_same_v<std::decay_t<C>, WallInput>>,
              class = decltype(std::declval<const std::decay_t<C> &>().data(),
                               std::declval<const std::decay_t<C> &>().size())>
    WallInput(C &&container)
    {
        using Container = std::decay_t<C>;
        using Element = std::remove_pointer_t<decltype(container.data())>;
        static_assert(std::is_trivially_copyable_v<Element>, "an input is its bytes");
        if constexpr (std::is_lvalue_reference_v<C> || detail::is_view<Container>) {
            refer_to(container);
        } else {
            Keep region;
            auto moved = std::make_shared<Container>(std::forward<C>(container));
            refer_to(*moved);
            moved_ = std::move(moved);
        }
    }

    [[nodiscard]] const void *data() const noexcept
    {
        return data_;
    }
    [[nodiscard]] std::size_t size() const noexcept
    {
        return size_;
    }

  private:
    template <class C> void refer_to(const C &container) noexcept
    {
        data_ = container.data();
        size_ = container.size() * sizeof(*container.data());
    }

    const void *data_ = nullptr;
    std::size_t size_ = 0;
    std::shared_ptr<const void> moved_;
};

namespace detail
{

/* The stint_wall_fn of a lambda. It captures nothing, so it needs no object, and there is none in the child. */
template <class F> int enter_walled(const void *input, std::size_t size, stint_reply *reply)
{
    static_assert(std::is_empty_v<F>, "a lambda that captures nothing");
    alignas(F) unsigned char nothing[sizeof(F)] = {};
    thrown_message message;
    try {
        return (*std::launder(reinterpret_cast<const F *>(nothing)))(input, size, reply);
    } catch (...) {
        return fail_thrown(message);
    }
}

} // namespace detail

/* What a walled task is: a function of this program, or the name of one that the wall's program serves, with its input
 * and what else goes to the child. */
class WallCall
{
  public:
    WallCall(stint_wall_fn *function, WallInput input = WallInput()) : input_(std::move(input))
    {
        call_.fn = function;
    }
    template <class F, class = std::enable_if_t<std::is_convertible_v<F, stint_wall_fn *> && std::is_class_v<F>>>
    WallCall(F, WallInput input = WallInput()) : WallCall(detail::enter_walled<F>, std::move(input))
    {
    }
    /* The name is not copied: it must live until the task is submitted. */
    WallCall(const char *entry, WallInput input = WallInput()) : input_(std::move(input))
    {
        call_.entry = entry;
    }

    /* Descriptors that the child gets copies of; they have to stay open until the task has ended. Their numbers are
     * copied; std::system_error with EINVAL: more than STINT_WALL_FDS_MAX. */
    WallCall &fds(std::initializer_list<int> numbers)
    {
        detail::check(numbers.size() > STINT_WALL_FDS_MAX ? EINVAL : 0, "stint::WallCall::fds");
        call_.fd_count = 0;
        for (int number : numbers)
            fds_[call_.fd_count++] = number;
        return *this;
    }
    /* Where the queue is full wait so long for a slot. */
    template <class Rep, class Period> WallCall &wait(std::chrono::duration<Rep, Period> time) noexcept
    {
        call_.wait_ns = detail::nanoseconds(time);
        return *this;
    }
    [[nodiscard]] const WallInput &input() const noexcept
    {
        return input_;
    }
    /* Points into this object. */
    [[nodiscard]] stint_wall_call get() const noexcept
    {
        stint_wall_call call = call_;
        call.input = input_.data();
        call.input_size = input_.size();
        call.fds = fds_;
        return call;
    }

  private:
    stint_wall_call call_ = STINT_WALL_CALL_INIT;
    WallInput input_;
    int fds_[STINT_WALL_FDS_MAX] = {};
};

/* How to make a wall, one call for each option: stint/wall.h. What is given by a pointer is not copied, and must live
 * until the wall is made. */
class WallOptions
{
  public:
    WallOptions &name(const char *name) noexcept
    {
        options_.name = name;
        return *this;
    }
    /* function() is called in each template: what it returns, 0 or an error, or nothing. What it throws becomes an
     * error: of a std::system_error its code, of std::bad_alloc ENOMEM, of any other exception ECANCELED. */
    template <class F> WallOptions &setup(F &&function)
    {
        setup_ = std::make_shared<const std::function<int()>>([function = std::forward<F>(function)]() -> int {
            if constexpr (std::is_void_v<std::invoke_result_t<const std::decay_t<F> &>>)
                return function(), 0;
            else
                return function();
        });
        return *this;
    }
    /* The template is this program, with these arguments, up to a null pointer, or its name alone. */
    WallOptions &program(const char *file, char *const *arguments = nullptr) noexcept
    {
        options_.program = file;
        options_.arguments = arguments;
        return *this;
    }
    WallOptions &children(unsigned children) noexcept
    {
        options_.children = children;
        return *this;
    }
    WallOptions &tasks_per_child(unsigned tasks) noexcept
    {
        options_.tasks_per_child = tasks;
        return *this;
    }
    /* A child is used until a task does not end Ok. */
    WallOptions &reused() noexcept
    {
        return tasks_per_child(STINT_WALL_REUSED);
    }
    WallOptions &spare(unsigned children) noexcept
    {
        options_.spare = children;
        return *this;
    }
    WallOptions &sandbox(stint_wall_sandbox sandbox) noexcept
    {
        options_.sandbox = sandbox;
        return *this;
    }
    /* One more file or folder that children of a closed wall may read, or write as well. */
    WallOptions &path(const char *path, bool writable = false)
    {
        paths_.push_back({ path, writable });
        return *this;
    }
    WallOptions &filter(stint_wall_filter_fn *rules, void *arg = nullptr) noexcept
    {
        options_.filter = rules;
        options_.filter_arg = arg;
        return *this;
    }
    /* One more descriptor that stays open in the children. */
    WallOptions &fd(int number)
    {
        fds_.push_back(number);
        return *this;
    }
    WallOptions &input_limit(std::size_t bytes) noexcept
    {
        options_.input_limit = bytes;
        return *this;
    }
    WallOptions &reply_limit(std::size_t bytes) noexcept
    {
        options_.reply_limit = bytes;
        return *this;
    }
    WallOptions &memory(std::size_t bytes) noexcept
    {
        options_.memory = bytes;
        return *this;
    }
    WallOptions &descriptors(unsigned descriptors) noexcept
    {
        options_.descriptors = descriptors;
        return *this;
    }
    WallOptions &processes(unsigned processes) noexcept
    {
        options_.processes = processes;
        return *this;
    }
    WallOptions &file_size(std::size_t bytes) noexcept
    {
        options_.file_size = bytes;
        return *this;
    }
    WallOptions &stack(std::size_t bytes) noexcept
    {
        options_.stack = bytes;
        return *this;
    }
    WallOptions &cgroup(const char *folder) noexcept
    {
        options_.cgroup = folder;
        return *this;
    }
    WallOptions &queue_capacity(std::size_t tasks) noexcept
    {
        options_.queue_capacity = tasks;
        return *this;
    }
    WallOptions &flags(unsigned flags) noexcept
    {
        options_.flags = flags;
        return *this;
    }
    /* Points into this object. */
    [[nodiscard]] stint_wall_options get() const noexcept
    {
        stint_wall_options options = options_;
        if (setup_ != nullptr) {
            options.setup = call_setup;
            options.setup_arg = const_cast<std::function<int()> *>(setup_.get());
        }
        options.paths = paths_.data();
        options.path_count = paths_.size();
        options.fds = fds_.data();
        options.fd_count = fds_.size();
        return options;
    }

  private:
    static int call_setup(void *setup)
    {
        try {
            return (*static_cast<const std::function<int()> *>(setup))();
        } catch (const std::system_error &caught) {
            return caught.code().value() != 0 ? caught.code().value() : ECANCELED;
        } catch (const std::bad_alloc &) {
            return ENOMEM;
        } catch (...) {
            return ECANCELED;
        }
    }

    stint_wall_options options_ = STINT_WALL_OPTIONS_INIT;
    std::shared_ptr<const std::function<int()>> setup_;
    std::vector<stint_wall_path> paths_;
    std::vector<int> fds_;
};

namespace detail
{

/* The record of a walled task: its value comes with the outcome, and its function is not called here. */
class record_of_walled final : public record<WallReply>
{
  public:
    explicit record_of_walled(const WallCall &call) : call_(call)
    {
    }
    void arrive(const stint_outcome &outcome) noexcept override
    {
        auto reply = [&] { return WallReply(outcome.value, outcome.payload_size); };
        store(reply);
    }
    [[nodiscard]] stint_wall_call get() const noexcept
    {
        return call_.get();
    }

  private:
    void call() override
    {
    }

    const WallCall call_;
};

} // namespace detail

/* A wall: stint/wall.h. Move-only. Made before any other thread, unless it has a program of its own. A Wall that goes
 * ends its tasks and waits until no process of it is left; in a callback it starts a thread that does so. Its functions
 * throw std::system_error. */
class Wall
{
  public:
    /* What is thrown says what is wrong in its what(). */
    explicit Wall(const WallOptions &options = WallOptions())
    {
        char message[512] = "";
        stint_wall_options raw = options.get();
        raw.message = message;
        raw.message_size = sizeof message;
        int error = stint_wall_create(&raw, &wall_);
        detail::check(error, message[0] != '\0' ? message : "stint_wall_create");
    }
    ~Wall()
    {
        stint_mask(); /* an interrupt has to wait: nobody else would free it */
        if (stint_wall_destroy(wall_) == EDEADLK)
            destroy_elsewhere();
        stint_unmask();
    }
    Wall(Wall &&other) noexcept : wall_(std::exchange(other.wall_, nullptr))
    {
    }
    Wall &operator=(Wall &&other) noexcept
    {
        std::swap(wall_, other.wall_);
        return *this;
    }

    /* Run the call in a child, as a task of the pool: stint_submit_walled_call. EAGAIN: the queue is full. When it
     * throws, the call is what it was. */
    Future<WallReply> submit(const Pool &pool, const WallCall &call, const Options &options = Options()) const
    {
        return detail::submission::put_as<detail::record_of_walled, WallReply>(
            call, [&](detail::record_base *record, stint_future **future) {
                stint_wall_call raw = static_cast<detail::record_of_walled *>(record)->get();
                return stint_submit_walled_call(pool.handle(), wall_, &raw, &options.get(), future);
            });
    }
    /* The same with a function, or a lambda that captures nothing, and its input. An input that was moved in is gone
     * when this throws. */
    template <class F>
    Future<WallReply> submit(const Pool &pool, F &&function, WallInput input, const Options &options = Options()) const
    {
        return submit(pool, WallCall(std::forward<F>(function), std::move(input)), options);
    }

    [[nodiscard]] stint_wall_statistics statistics() const
    {
        stint_wall_statistics statistics = STINT_WALL_STATISTICS_INIT;
        detail::check(stint_wall_read(wall_, &statistics), "stint_wall_read");
        return statistics;
    }
    [[nodiscard]] stint_wall *handle() const noexcept
    {
        return wall_;
    }

  private:
    void destroy_elsewhere() noexcept
    {
        pthread_t thread;
        auto destroy = [](void *wall) -> void * {
            stint_wall_destroy(static_cast<stint_wall *>(wall));
            return nullptr;
        };
        if (pthread_create(&thread, nullptr, destroy, wall_) == 0)
            pthread_detach(thread);
    }

    stint_wall *wall_ = nullptr;
};

} // namespace stint

#endif
