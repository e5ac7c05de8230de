/* SPDX-License-Identifier: MIT
 *
 * Exceptions that leave what the library calls: functions of tasks, forks, loops, callbacks. None ends the process,
 * each leaves everything as a return would. */
#include "trail.h"

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace
{

stint_pool *make_pool(unsigned workers)
{
    stint_pool_options options = STINT_POOL_OPTIONS_INIT;
    options.workers = workers;
    stint_pool *pool = nullptr;
    assert_int_equal(stint_pool_create(&options, &pool), 0);
    return pool;
}

stint_outcome run_in_pool(stint_pool *pool, std::function<void()> function, stint_options options)
{
    trail[0] = '\0';
    stint_future *future = nullptr;
    stint_outcome outcome;
    assert_int_equal(stint_submit(pool, call, &function, &options, &future), 0);
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    stint_future_release(future);
    return outcome;
}

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

template <class Exception> void throw_one(Exception exception)
{
    Mark mark('d');
    throw exception;
}

const stint_on_interrupt modes[] = { STINT_JUMP, STINT_FAIL, LEAVES_BY };

TEST(one_out_of_a_task_makes_it_an_error_with_its_message)
{
    struct Virtual : virtual std::exception {
        std::string text = "virtually";
        const char *what() const noexcept override
        {
            return text.c_str();
        }
    };
    stint_pool *pool = make_pool(2);
    for (auto mode : modes) {
        stint_options options = STINT_OPTIONS_INIT;
        options.on_interrupt = mode;
        assert_thrown(run(options, [] { throw_one(std::runtime_error("no such thing")); }), "no such thing");
        assert_string_equal(trail, "d");
        assert_thrown(run_in_pool(
                          pool, [] { throw_one(std::logic_error("wrong")); }, options),
                      "wrong");
        assert_string_equal(trail, "d");
        assert_thrown(run(options, [] { throw Virtual(); }), "virtually");
        assert_thrown(run(options, [] { throw 5; }), "an exception of type i");
        assert_thrown(run(options, [] { throw std::bad_alloc(); }), "std::bad_alloc", ENOMEM);
        assert_thrown(run(options, [] { throw std::runtime_error(std::string(500, 'x')); }),
                      std::string(STINT_MESSAGE_SIZE - 1, 'x').c_str());
        assert_thrown(run(options,
                          [] {
                              std::exception_ptr kept;
                              try {
                                  throw std::runtime_error("kept");
                              } catch (...) {
                                  kept = std::current_exception();
                              }
                              std::rethrow_exception(kept);
                          }),
                      "kept");
        assert_thrown(run(options,
                          [] {
                              try {
                                  throw std::runtime_error("again");
                              } catch (std::exception &) {
                                  throw;
                              }
                          }),
                      "again");
    }
    stint_pool_destroy(pool);
}

TEST(what_had_tripped_before_is_the_reason)
{
    stint_options options = limited();
    options.on_interrupt = STINT_FAIL;
    auto outcome = run(options, spend_new);
    assert_int_equal(outcome.reason, STINT_REASON_ALLOCATION_LIMIT);
    assert_string_equal(outcome.message, "");
    outcome = run(limited(0), [] {});
    assert_string_equal(outcome.message, "");
}

TEST(one_out_of_an_inner_scope_stays_in_it)
{
    auto outcome = run(limited(0), [] {
        stint_outcome inner;
        std::function<void()> throws = [] { throw std::runtime_error("inner"); };
        if (stint_run(call, &throws, nullptr, &inner) == 0 && inner.reason == STINT_REASON_EXCEPTION)
            note('1');
        /* With one caught around it. */
        try {
            throw 1;
        } catch (int) {
            if (stint_run(call, &throws, nullptr, &inner) == 0 && inner.reason == STINT_REASON_EXCEPTION)
                note('2');
            if (std::current_exception() != nullptr)
                note('3');
        }
    });
    assert_int_equal(outcome.status, STINT_OK);
    assert_string_equal(trail, "123");
}

/* --- Forks
 * ---------------------------------------------------------------------------------------------------------- */

std::atomic<int> taken;

int throw_elsewhere(void *, void **)
{
    taken = 1;
    throw std::runtime_error("out of a fork");
}

/* Wait for somebody to take what was forked, if there is another worker. */
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

TEST(one_out_of_a_fork_leaves_from_its_join)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        stint_pool *pool = make_pool(workers);
        for (auto mode : modes) {
            stint_options options = STINT_OPTIONS_INIT;
            options.on_interrupt = mode;
            taken = 0;
            auto outcome = run_in_pool(
                pool,
                [workers] {
                    stint_subtask subtask;
                    stint_fork(&subtask, throw_elsewhere, nullptr);
                    if (workers > 1)
                        await_thief();
                    try {
                        stint_join(&subtask, nullptr);
                        note('W');
                    } catch (std::runtime_error &error) {
                        note(strcmp(error.what(), "out of a fork") == 0 ? '1' : 'W');
                    }
                    note(std::uncaught_exceptions() == 0 ? '2' : 'W');
                },
                options);
            assert_int_equal(outcome.status, STINT_OK);
            assert_string_equal(trail, "12");
            taken = 0;
            outcome = run_in_pool(
                pool,
                [workers] {
                    stint_subtask subtask;
                    stint_fork(&subtask, throw_elsewhere, nullptr);
                    if (workers > 1)
                        await_thief();
                    stint_join(&subtask, nullptr);
                },
                options);
            assert_thrown(outcome, "out of a fork");
        }
        stint_pool_destroy(pool);
    }
}

std::atomic<int> at_work;
std::atomic<int> wrong;

/* Its argument lies in the frame of who forked it, which must not go meanwhile. */
int look_for_long(void *number, void **)
{
    at_work = 1;
    taken = 1;
    for (int i = 0; i < 300; i++) {
        wrong += *static_cast<volatile int *>(number) != 42;
        usleep(10);
    }
    at_work = 0;
    return 0;
}

NOINLINE void fork_and_throw(bool drops)
{
    volatile int number = 42;
    stint_subtask subtask;
    stint_fork(&subtask, look_for_long, const_cast<int *>(&number));
    await_thief();
    if (drops)
        stint_fork_drop(&subtask);
    throw std::runtime_error("with a fork outstanding");
}

NOINLINE void smash()
{
    volatile char area[8192];
    memset(const_cast<char *>(area), 1, sizeof area);
}

TEST(forks_are_settled_before_their_frames_go)
{
    stint_pool *pool = make_pool(2);
    for (int i = 0; i < 20; i++) {
        taken = 0;
        auto outcome = run_in_pool(
            pool,
            [] {
                struct Smashes {
                    ~Smashes()
                    {
                        smash();
                    }
                } smashes;
                fork_and_throw(false);
            },
            limited(0));
        assert_thrown(outcome, "with a fork outstanding");
        taken = 0;
        outcome = run_in_pool(
            pool,
            [] {
                try {
                    fork_and_throw(true);
                } catch (std::exception &) {
                    note(at_work == 0 ? '1' : 'W');
                }
                smash();
            },
            limited(0));
        assert_int_equal(outcome.status, STINT_OK);
        assert_string_equal(trail, "1");
    }
    assert_int_equal(wrong, 0);
    stint_pool_destroy(pool);
}

/* --- Loops
 * ---------------------------------------------------------------------------------------------------------- */

struct Loop {
    size_t bad;
    std::atomic<int> running{ 0 };
    std::atomic<long> outside{ 0 };
};

int visit(size_t begin, size_t end, void *argument)
{
    auto *loop = static_cast<Loop *>(argument);
    struct Running {
        std::atomic<int> &count;
        ~Running()
        {
            count--;
        }
    } running{ loop->running };
    loop->running++;
    for (volatile int i = 0; i < 2000; i = i + 1)
        ;
    if (begin >= 3000 || end > 3000)
        loop->outside++;
    if (begin == loop->bad)
        throw std::runtime_error("out of a range");
    return 0;
}

TEST(one_out_of_a_loop_leaves_from_it)
{
    for (unsigned workers = 1; workers <= 3; workers += 2) {
        stint_pool *pool = make_pool(workers);
        for (size_t i = 0; i < 60; i++) {
            Loop loop{ i * 50 };
            auto caught = run_in_pool(
                pool,
                [&loop] {
                    try {
                        stint_for(0, 3000, 1, visit, &loop);
                        note('W');
                    } catch (std::runtime_error &error) {
                        note(strcmp(error.what(), "out of a range") == 0 && loop.running == 0 ? '1' : 'W');
                    }
                    smash();
                },
                limited(0));
            assert_int_equal(caught.status, STINT_OK);
            assert_string_equal(trail, "1");
            auto uncaught = run_in_pool(
                pool, [&loop] { stint_for(0, 3000, 1, visit, &loop); }, limited(0));
            assert_thrown(uncaught, "out of a range");
            assert_int_equal(loop.running, 0);
            assert_int_equal(loop.outside, 0);
        }
        stint_pool_destroy(pool);
    }
    Loop loop{ 1000 };
    int caught = 0;
    try {
        stint_for(
            0, 3000, 0, [](size_t, size_t, void *) -> int { throw 1; }, &loop); /* outside of all scopes */
    } catch (int) {
        caught++;
    }
    assert_int_equal(caught, 1);
}

TEST(one_out_of_a_comparator_or_a_reduction_leaves_from_it)
{
    stint_pool *pool = make_pool(3);
    for (int round = 0; round < 20; round++) {
        static std::atomic<int> calls;
        calls = round * 1000;
        auto outcome = run_in_pool(
            pool,
            [] {
                std::vector<int> numbers(20000);
                for (size_t i = 0; i < numbers.size(); i++)
                    numbers[i] = static_cast<int>(i * 7919 % 20011);
                try {
                    stint_sort(
                        numbers.data(), numbers.size(), sizeof(int),
                        [](const void *a, const void *b, void *) -> int {
                            if (++calls == 100000)
                                throw std::runtime_error("incomparable");
                            return *static_cast<const int *>(a) - *static_cast<const int *>(b);
                        },
                        nullptr);
                    note('W');
                } catch (std::runtime_error &) {
                    note('1');
                }
                stint_reduction reduction = {};
                reduction.size = 1024;
                reduction.accumulate = [](size_t begin, size_t, void *, void *) -> int {
                    if (begin == 700)
                        throw std::runtime_error("cannot be added");
                    return 0;
                };
                reduction.combine = [](void *, const void *, void *) {};
                char result[1024];
                try {
                    stint_reduce(0, 1000, 1, &reduction, nullptr, result);
                    note('W');
                } catch (std::runtime_error &) {
                    note('2');
                }
            },
            limited(0));
        assert_int_equal(outcome.status, STINT_OK);
        assert_string_equal(trail, "12");
    }
    stint_pool_destroy(pool);
}

/* --- Callbacks
 * ------------------------------------------------------------------------------------------------------ */

void note_report(const char *where, const char *what, void *)
{
    note(where[0]);
    note(what[0]);
}

TEST(one_out_of_a_callback_is_reported)
{
    stint_exceptions_set_report(note_report, nullptr);
    stint_pool *pool = make_pool(1);
    trail[0] = '\0';
    stint_future *future = nullptr;
    std::function<void()> nothing = [] {};
    assert_int_equal(stint_submit(pool, call, &nothing, nullptr, &future), 0);
    assert_int_equal(stint_future_wait(future, nullptr), 0);
    assert_int_equal(stint_pool_shutdown(pool, STINT_SHUTDOWN_DRAIN, STINT_FOREVER), 0);
    stint_callback_fn *throws = [](stint_future *, const stint_outcome *, void *) { throw std::runtime_error("1"); };
    stint_callback_fn *notes = [](stint_future *, const stint_outcome *, void *) { note('n'); };
    assert_int_equal(stint_future_then(future, throws, nullptr), 0);
    assert_int_equal(stint_future_then(future, notes, nullptr), 0);
    assert_string_equal(trail, "c1n");
    stint_future_release(future);
    stint_pool_destroy(pool);

    for (auto mode : modes) {
        stint_options options = limited();
        options.on_interrupt = mode;
        auto outcome = run(options, [] {
            stint_guard outer;
            stint_guard_push(&outer, note_letter, const_cast<char *>("o"));
            stint_guard inner;
            stint_guard_push(
                &inner, [](void *) { throw std::runtime_error("2"); }, nullptr);
            try {
                spend_new();
            } catch (std::bad_alloc &) {
            }
            stint_guard_pop(&inner, true);
            stint_guard_pop(&outer, true);
        });
        assert_stopped(outcome, "r2o");
    }
    stint_exceptions_set_report(nullptr, nullptr);
    assert_int_equal(std::uncaught_exceptions(), 0);
}

} // namespace

TEST_MAIN()
