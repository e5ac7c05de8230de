/* SPDX-License-Identifier: MIT
 *
 * stint::Wall: input and reply, exceptions, deaths, and the owner of a reply. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "../lacks.h"
#include "../test.h"
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <new>
#include <numeric>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <vector>

#include <stint/stint.hpp>

using namespace std::chrono_literals;

namespace
{

std::string loaded;                 /* by a setup: in the program it stays empty */
std::unique_ptr<stint::Wall> fresh; /* these are made before there is any other thread */
std::unique_ptr<stint::Wall> reused;

/* The code of its exception, and the message. */
template <class F> int code_of(F function, std::string *said = nullptr)
{
    try {
        function();
    } catch (const std::system_error &error) {
        if (said != nullptr)
            *said = error.what();
        return error.code().value();
    } catch (const stint::failure &failure) {
        if (said != nullptr)
            *said = failure.what();
        return failure.code();
    }
    return 0;
}

int echo(const void *input, size_t size, stint_reply *reply)
{
    return stint_reply_write(reply, input, size);
}

int turn_round(const void *input, size_t size, stint_reply *reply)
{
    auto *text = static_cast<const char *>(input);
    std::string turned(text, text + size);
    turned.assign(turned.rbegin(), turned.rend());
    return stint_reply_write(reply, turned.data(), turned.size());
}

TEST(a_setup_may_throw_and_the_wall_says_what_is_wrong)
{
    std::string said;
    auto make = [](auto setup) { stint::Wall wall(stint::WallOptions().setup(setup)); };
    assert_int_equal(code_of([&] { make([]() -> int { return 7; }); }, &said), 7);
    assert_non_null(strstr(said.c_str(), "setup returned 7"));
    assert_int_equal(code_of([&] { make([] { throw std::system_error(EBADMSG, std::generic_category()); }); }),
                     EBADMSG);
    assert_int_equal(code_of([&] { make([] { throw std::bad_alloc(); }); }), ENOMEM);
    assert_int_equal(code_of([&] { make([] { throw 1; }); }), ECANCELED);
    assert_int_equal(code_of([&] { stint::Wall wall(stint::WallOptions().fd(999)); }, &said), EINVAL);
    assert_non_null(strstr(said.c_str(), "descriptor 999 is not open"));
}

TEST(a_task_sees_what_setup_has_done_and_the_program_does_not)
{
    stint::WallOptions options;
    std::string word = "warm";
    fresh = std::make_unique<stint::Wall>(options.name("fresh").children(2).setup([&word] { loaded = word; }));
    reused = std::make_unique<stint::Wall>(stint::WallOptions().name("reused").children(1).reused());
    stint::Pool pool(stint::PoolOptions().workers(1));
    auto task = fresh->submit(
        pool, [](const void *, size_t, stint_reply *reply) { return echo(loaded.data(), loaded.size(), reply); }, {});
    assert_true(task.get().view() == "warm");
    assert_true(loaded.empty());
}

TEST(a_reply_is_the_bytes_and_its_owner)
{
    stint::Pool pool(stint::PoolOptions().workers(1));
    stint::WallReply reply = reused->submit(pool, turn_round, "abc").get();
    assert_true(reply.view() == "cba");
    assert_int_equal(reply.size(), 3);
    assert_int_equal(*reply.begin(), 'c');
    reply.data()[0] = 'C';
    assert_true(std::string(reply.begin(), reply.end()) == "Cba");
    stint::WallReply moved = std::move(reply);
    assert_true(reply.empty());
    free(moved.release());
    assert_true(moved.empty());

    auto outcome = reused->submit(pool, echo, {}).outcome();
    assert_true(static_cast<bool>(outcome));
    assert_int_equal(outcome.get().size(), 0);
}

/* Bytes of this process that are in memory. */
size_t resident()
{
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == nullptr || fscanf(file, "%*u %zu", &pages) != 1)
        fail();
    fclose(file);
    return pages * 4096;
}

TEST(a_reply_that_nobody_takes_goes_with_its_future)
{
    stint::Pool pool(stint::PoolOptions().workers(1));
    const std::string input(1 << 20, 'x');
    size_t before = 0;
    for (int i = 0; i < 60; i++) {
        if (i == 20)
            before = resident();
        auto waited = reused->submit(pool, echo, input);
        waited.wait();
        auto left = reused->submit(pool, echo, input);
        left.wait();
        left.detach();
        auto dropped = reused->submit(pool, echo, input);
    }
    assert_in_range(resident(), 0, before + (20 << 20));
    assert_true(reused->submit(pool, echo, input).get().view() == input);
}

TEST(an_input_is_moved_in_or_referred_to)
{
    stint::Pool pool(stint::PoolOptions().workers(1));
    std::vector<int> numbers(1000);
    std::iota(numbers.begin(), numbers.end(), 0);
    const int *there = numbers.data();
    stint::WallInput referred(numbers);
    assert_ptr_equal(referred.data(), there);
    assert_int_equal(referred.size(), 1000 * sizeof(int));
    assert_int_equal(stint::WallInput(std::string_view("text")).size(), 4);
    assert_int_equal(stint::WallInput("text").size(), 4);
    stint::WallInput held(std::array<short, 3>{ 1, 2, 3 });
    assert_int_equal(held.size(), 3 * sizeof(short));
    assert_int_equal(static_cast<const short *>(held.data())[2], 3);

    stint::WallInput moved(std::move(numbers));
    assert_true(numbers.empty());
    assert_ptr_equal(moved.data(), there);
    auto task = fresh->submit(
        pool,
        [](const void *input, size_t size, stint_reply *reply) {
            auto *first = static_cast<const int *>(input);
            int sum = std::accumulate(first, first + size / sizeof(int), 0);
            return stint_reply_write(reply, &sum, sizeof sum);
        },
        std::move(moved));
    int sum;
    stint::WallReply reply = task.get();
    assert_int_equal(reply.size(), sizeof sum);
    memcpy(&sum, reply.data(), sizeof sum);
    assert_int_equal(sum, 999 * 1000 / 2);
}

TEST(an_exception_becomes_an_error_with_its_message)
{
    stint::Pool pool(stint::PoolOptions().workers(1));
    std::string said;
    auto thrown = fresh->submit(
        pool, [](const void *, size_t, stint_reply *) -> int { throw std::runtime_error("out of paper"); }, {});
    assert_int_equal(code_of([&] { thrown.get(); }, &said), -1);
    assert_string_equal(said.c_str(), "out of paper");
    auto memory = fresh->submit(pool, [](const void *, size_t, stint_reply *) -> int { throw std::bad_alloc(); }, {});
    auto outcome = memory.outcome();
    assert_int_equal(outcome.reason(), STINT_REASON_EXCEPTION);
    assert_int_equal(outcome.code(), ENOMEM);
    auto failed = fresh->submit(
        pool,
        [](const void *, size_t, stint_reply *) -> int { return stint_fail(EBADMSG, "line 3", sizeof "line 3" - 1); },
        {});
    auto failure = failed.outcome();
    assert_int_equal(failure.code(), EBADMSG);
    assert_true(failure.payload().bytes() == "line 3");
    assert_string_equal(failure.message(), "failed");
}

TEST(a_death_is_an_error_that_says_how)
{
    stint::Pool pool(stint::PoolOptions().workers(1));
    auto aborts = fresh->submit(pool, [](const void *, size_t, stint_reply *) -> int { abort(); }, {});
    auto outcome = aborts.outcome();
    assert_int_equal(outcome.reason(), STINT_REASON_CRASH);
    assert_non_null(strstr(outcome.message(), "SIGABRT"));
    auto death = outcome.payload().as<stint_wall_death>();
    assert_true(death.has_value());
    assert_int_equal(death->signal, SIGABRT);
    auto exits = fresh->submit(pool, [](const void *, size_t, stint_reply *) -> int { exit(4); }, {});
    try {
        exits.get();
        fail();
    } catch (const stint::error &error) {
        assert_int_equal(error.reason(), STINT_REASON_EXIT);
        assert_string_equal(error.what(), "exit status 4");
        assert_int_equal(error.payload().as<stint_wall_death>()->status, 4);
    }
}

TEST(destructors_run_where_a_budget_ends_a_task)
{
    stint::Pool pool(stint::PoolOptions().workers(1));
    int line[2];
    assert_int_equal(pipe(line), 0);
    auto task = fresh->submit(pool, stint::WallCall([](const void *, size_t, stint_reply *reply) -> int {
                                        struct Tells {
                                            int fd;
                                            ~Tells()
                                            {
                                                static_cast<void>(!write(fd, "!", 1));
                                            }
                                        } tells{ stint_reply_fd(reply, 0) };
                                        std::vector<std::string> list;
                                        for (;;)
                                            list.emplace_back(100, 'x');
                                    }).fds({ line[1] }),
                              stint::Options().memory(8 << 20));
    assert_int_equal(task.outcome().reason(), STINT_REASON_MEMORY_LIMIT);
    close(line[1]);
    char told[2];
    assert_int_equal(read(line[0], told, sizeof told), 1);
    close(line[0]);
    assert_int_equal(code_of([] {
                         stint::WallCall(echo).fds({ 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 });
                     }),
                     EINVAL);
}

TEST(times_and_tokens_end_a_task_wherever_it_is)
{
    stint::Pool pool(stint::PoolOptions().workers(1));
    auto sleep = [](const void *, size_t, stint_reply *) -> int { return pause(); };
    assert_int_equal(fresh->submit(pool, sleep, {}, stint::Options().run_time(20ms)).outcome().reason(),
                     STINT_REASON_DEADLINE);
    assert_int_equal(fresh->submit(pool, sleep, {}, stint::Options().wall(0s)).outcome().reason(),
                     STINT_REASON_EXPIRED);
    auto cancelled = fresh->submit(pool, sleep, {});
    cancelled.cancel();
    assert_int_equal(cancelled.outcome().status(), STINT_CANCELLED);
    auto replaced = fresh->submit(pool, sleep, {});
    replaced = fresh->submit(pool, echo, "still there"); /* the one before is cancelled, and waited for */
    assert_true(replaced.get().view() == "still there");
}

TEST(a_wall_and_a_call_say_what_they_are_asked)
{
    stint::Pool pool(stint::PoolOptions().workers(1));
    uint64_t before = reused->statistics().tasks;
    stint::WallCall call(echo, std::string("again"));
    for (int i = 0; i < 3; i++)
        assert_true(reused->submit(pool, call.wait(1s)).get().view() == "again");
    assert_int_equal(reused->statistics().tasks, before + 3);
    assert_int_equal(code_of([&] { static_cast<void>(reused->submit(pool, stint::WallCall("by name"))); }), EINVAL);
    assert_int_equal(code_of([&] { static_cast<void>(reused->submit(pool, echo, std::string(65 << 20, 'x'))); }),
                     EMSGSIZE);
    stint::Wall moved = std::move(*reused);
    assert_null(reused->handle());
    assert_true(moved.submit(pool, echo, "moved").get().view() == "moved");
}

/* A wall that goes in a callback is ended by a thread. */
TEST(a_wall_may_go_in_a_callback)
{
    stint::Pool pool(stint::PoolOptions().workers(1));
    std::unique_ptr<stint::Wall> last = std::move(fresh);
    const stint::Wall *wall = last.get();
    auto task = wall->submit(pool, echo, "last");
    task.then([last = std::move(last)](const stint_outcome &) mutable { last.reset(); });
    assert_true(task.get().view() == "last");
}

} // namespace

TESTS_NEED(lack_of_filters)
TEST_MAIN()
