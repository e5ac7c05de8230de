/* SPDX-License-Identifier: MIT
 *
 * Exceptions. stint.hpp catches what its tasks, forks and loops throw, and hands it on. Out of a function of the C
 * interface they end the program, as they do out of a std::thread. */
#include "../lacks.h"
#include "trail.h"

#include <atomic>
#include <numeric>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <vector>

#include <stint/stint.hpp>

namespace
{

stint::Options left()
{
    return stint::Options().on_interrupt(LEAVES_BY);
}

const stint_on_interrupt modes[] = { STINT_JUMP, STINT_FAIL, LEAVES_BY };

template <class Exception> void throw_one(Exception exception)
{
    Mark mark('d');
    throw exception;
}

/* --- Tasks of stint.hpp ------------------------------------------------------------------------------------------- */

void assert_thrown(const stint_outcome &outcome, const char *message, int error = -1)
{
    assert_int_equal(outcome.status, STINT_ERROR);
    assert_string_equal(stint_reason_name(outcome.reason), "exception");
    assert_string_equal(outcome.message, message);
    assert_int_equal(outcome.error, error);
    assert_null(outcome.value);
    assert_int_equal(std::uncaught_exceptions(), 0);
    assert_true(std::current_exception() == nullptr);
}

template <class F> stint_outcome outcome_of(stint::Pool &pool, F function, stint_on_interrupt mode)
{
    trail[0] = '\0';
    auto future = pool.submit(function, left().on_interrupt(mode));
    stint_outcome outcome;
    assert_int_equal(stint_future_wait(future.handle(), &outcome), 0);
    return outcome;
}

TEST(what_a_task_throws_is_its_error_with_its_message)
{
    struct Virtual : virtual std::exception {
        std::string text = "virtually";
        const char *what() const noexcept override
        {
            return text.c_str();
        }
    };
    stint::Pool pool(stint::PoolOptions().workers(2));
    for (auto mode : modes) {
        assert_thrown(outcome_of(
                          pool, [] { throw_one(std::runtime_error("no such thing")); }, mode),
                      "no such thing");
        assert_string_equal(trail, "d");
        assert_thrown(outcome_of(
                          pool, [] { throw Virtual(); }, mode),
                      "virtually");
        assert_thrown(outcome_of(
                          pool, [] { throw 5; }, mode),
                      "an exception that is no std::exception");
        assert_thrown(outcome_of(
                          pool, [] { throw std::bad_alloc(); }, mode),
                      "std::bad_alloc", ENOMEM);
        assert_thrown(outcome_of(
                          pool, [] { throw std::runtime_error(std::string(500, 'x')); }, mode),
                      std::string(STINT_MESSAGE_SIZE - 1, 'x').c_str());
    }
    auto outcome = stint::run([] { throw std::system_error(EPERM, std::generic_category(), "open"); }, left());
    assert_int_equal(outcome.reason(), STINT_REASON_EXCEPTION);
    assert_int_equal(outcome.code(), EPERM);
}

TEST(one_out_of_an_inner_scope_stays_in_it)
{
    auto outcome = run(limited(0), [] {
        try {
            throw 1; /* with one caught around it */
        } catch (int) {
            auto inner = stint::run([] { throw std::runtime_error("inner"); }, left());
            note(inner.reason() == STINT_REASON_EXCEPTION ? '1' : 'W');
            note(std::current_exception() != nullptr ? '2' : 'W');
        }
    });
    assert_int_equal(outcome.status, STINT_OK);
    assert_string_equal(trail, "12");
}

/* --- Forks and loops ---------------------------------------------------------------------------------------------- */

std::atomic<int> taken;

/* Wait for another worker to take what was forked, if there is one. */
void await_thief()
{
    for (int i = 0; i < 20000 && taken == 0; i++) {
        stint_subtask nothing;
        stint_fork(
            &nothing, [](void *, void **) { return 0; }, nullptr);
        stint_join(&nothing, nullptr);
        usleep(10);
    }
}

void fork_and_catch(bool stolen)
{
    taken = 0;
    stint::Fork fork([] {
        taken = 1;
        throw std::runtime_error("out of a fork");
    });
    if (stolen)
        await_thief();
    try {
        fork.join();
        note('W');
    } catch (std::runtime_error &error) {
        note(strcmp(error.what(), "out of a fork") == 0 ? '1' : 'W');
    }
    note(std::uncaught_exceptions() == 0 ? '2' : 'W');
}

TEST(one_out_of_a_fork_leaves_from_its_join)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        stint::Pool pool(stint::PoolOptions().workers(workers));
        for (auto mode : modes) {
            auto outcome = outcome_of(
                pool, [workers] { fork_and_catch(workers > 1); }, mode);
            assert_int_equal(outcome.status, STINT_OK);
            assert_string_equal(trail, "12");
            taken = 0;
            outcome = outcome_of(
                pool,
                [workers] {
                    stint::Fork fork([] {
                        taken = 1;
                        throw std::runtime_error("out of a fork");
                    });
                    if (workers > 1)
                        await_thief();
                    fork.join();
                },
                mode);
            assert_thrown(outcome, "out of a fork");
        }
    }
}

NOINLINE void smash()
{
    volatile char area[8192];
    memset(const_cast<char *>(area), 1, sizeof area);
}

std::atomic<int> at_work;
std::atomic<int> wrong;

/* What the fork looks at lies in this frame, which must not go meanwhile. */
NOINLINE void fork_and_throw()
{
    volatile int number = 42;
    stint::Fork fork([&number] {
        at_work = 1;
        taken = 1;
        for (int i = 0; i < 300; i++) {
            wrong += number != 42;
            usleep(10);
        }
        at_work = 0;
    });
    await_thief();
    throw std::runtime_error("with a fork outstanding");
}

TEST(forks_are_settled_before_their_frames_go)
{
    stint::Pool pool(stint::PoolOptions().workers(2));
    for (int i = 0; i < 20; i++) {
        taken = 0;
        auto outcome = outcome_of(
            pool,
            [] {
                try {
                    fork_and_throw();
                } catch (std::exception &) {
                    note(at_work == 0 ? '1' : 'W');
                }
                smash();
            },
            LEAVES_BY);
        assert_int_equal(outcome.status, STINT_OK);
        assert_string_equal(trail, "1");
    }
    assert_int_equal(wrong, 0);
}

TEST(one_out_of_a_loop_leaves_from_it)
{
    for (unsigned workers = 1; workers <= 3; workers += 2) {
        stint::Pool pool(stint::PoolOptions().workers(workers));
        for (size_t i = 0; i < 60; i++) {
            std::atomic<int> running{ 0 };
            auto outcome = outcome_of(
                pool,
                [&running, i] {
                    auto visit = [&running, i](size_t begin, size_t) {
                        struct Running {
                            std::atomic<int> &count;
                            ~Running()
                            {
                                count--;
                            }
                        } here{ running };
                        running++;
                        for (volatile int turn = 0; turn < 2000; turn = turn + 1)
                            ;
                        if (begin == i * 50)
                            throw std::runtime_error("out of a range");
                    };
                    try {
                        stint::for_ranges(0, 3000, visit, 1);
                        note('W');
                    } catch (std::runtime_error &error) {
                        note(strcmp(error.what(), "out of a range") == 0 && running == 0 ? '1' : 'W');
                    }
                    smash();
                    stint::for_ranges(0, 3000, visit, 1);
                },
                LEAVES_BY);
            assert_string_equal(trail, "1");
            assert_thrown(outcome, "out of a range");
            assert_int_equal(running, 0);
        }
    }
    int caught = 0;
    try {
        stint::for_each(0, 3000, [](size_t) { throw 1; }); /* outside of all scopes */
    } catch (int) {
        caught++;
    }
    assert_int_equal(caught, 1);
}

std::vector<int> shuffled()
{
    std::vector<int> numbers(20000);
    for (size_t i = 0; i < numbers.size(); i++)
        numbers[i] = static_cast<int>(i * 7919 % 20011);
    return numbers;
}

TEST(one_out_of_a_comparator_or_a_reduction_leaves_from_it)
{
    stint::Pool pool(stint::PoolOptions().workers(3));
    static std::atomic<int> calls;
    for (int round = 0; round < 20; round++) {
        calls = round * 1000;
        auto outcome = outcome_of(
            pool,
            [] {
                std::vector<int> numbers = shuffled();
                long sum = std::accumulate(numbers.begin(), numbers.end(), 0L);
                try {
                    stint::sort(numbers, [](int a, int b) {
                        if (++calls == 100000)
                            throw std::runtime_error("incomparable");
                        return a < b;
                    });
                    note('W');
                } catch (std::runtime_error &) {
                    note(std::accumulate(numbers.begin(), numbers.end(), 0L) == sum ? '1' : 'W');
                }
                auto add = [](long &value, size_t begin, size_t) {
                    if (begin == 700)
                        throw std::runtime_error("cannot be added");
                    value++;
                };
                auto combine = [](long &value, long behind) { value += behind; };
                try {
                    note(stint::reduce(0, 1000, 0L, add, combine, 1) == 0 ? 'W' : 'V');
                } catch (std::runtime_error &) {
                    note('2');
                }
            },
            LEAVES_BY);
        assert_int_equal(outcome.status, STINT_OK);
        assert_string_equal(trail, "12");
    }
}

/* --- Functions of the C interface --------------------------------------------------------------------------------- */

constexpr int TERMINATED = 42;

int throw_out(void *, void **)
{
    throw std::runtime_error("out of C");
}

void run_here()
{
    stint_outcome outcome;
    stint_run(throw_out, nullptr, nullptr, &outcome);
}

void run_with_a_handler_around()
{
    try {
        run_here();
    } catch (...) {
    }
}

void run_on_a_worker()
{
    stint::Pool pool;
    stint_future *future;
    stint_submit(pool.handle(), throw_out, nullptr, nullptr, &future);
    stint_future_wait(future, nullptr);
}

void run_as_a_stolen_fork()
{
    stint::Pool pool(stint::PoolOptions().workers(2));
    pool.submit(
            [] {
                taken = 0;
                stint_subtask subtask;
                stint_fork(
                    &subtask,
                    [](void *, void **) -> int {
                        taken = 1;
                        throw 1;
                    },
                    nullptr);
                while (taken == 0)
                    await_thief();
                try {
                    stint_join(&subtask, nullptr);
                } catch (...) {
                }
            },
            left())
        .get();
}

void run_as_a_callback()
{
    stint::Pool pool;
    auto future = pool.submit([] {}, left());
    future.wait();
    try {
        future.then([](const stint_outcome &) { throw 1; });
        usleep(10000000); /* where a worker calls it */
    } catch (...) {
    }
}

void run_as_a_release()
{
    stint::run(
        [] {
            try {
                stint_guard guard;
                stint_guard_push(
                    &guard, [](void *) { throw 1; }, nullptr);
                stint_guard_pop(&guard, true);
            } catch (...) {
            }
        },
        left());
}

TEST(one_out_of_a_function_of_the_c_interface_ends_the_program)
{
    if (lack_of_lone_threads() != nullptr)
        skip_because(lack_of_lone_threads());
    void (*const ways[])() = { run_here,          run_with_a_handler_around, run_on_a_worker, run_as_a_stolen_fork,
                               run_as_a_callback, run_as_a_release };
    for (auto *way : ways) {
        pid_t child = ::fork();
        if (child == 0) {
            std::set_terminate([] { _exit(TERMINATED); });
            alarm(20);
            way();
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), TERMINATED);
    }
}

/* An exception because of a limit is not the program's. */
TEST(what_had_tripped_before_is_the_reason)
{
    stint_options options = limited();
    options.on_interrupt = STINT_FAIL;
    auto outcome = run(options, spend_new);
    assert_int_equal(outcome.reason, STINT_REASON_ALLOCATION_LIMIT);
    assert_string_equal(outcome.message, "");
    auto caught = stint::run(spend_new, left().allocation(100000).on_interrupt(STINT_FAIL));
    assert_int_equal(caught.reason(), STINT_REASON_ALLOCATION_LIMIT);
    assert_string_equal(caught.message(), "allocation-limit");
}

} // namespace

TEST_MAIN()
