/* SPDX-License-Identifier: MIT
 *
 * A program that brings its own C++ runtime (-static-libstdc++) beside the shared library: what the library overrides
 * must not be missing from it. */
#include "trail.h"

#include <errno.h>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace
{

int run_spending(stint_on_interrupt mode)
{
    std::function<void()> spend = spend_new;
    stint_options options = limited();
    options.on_interrupt = mode;
    stint_outcome outcome;
    int error = stint_run(call, &spend, &options, &outcome);
    return error == 0 && outcome.reason == STINT_REASON_ALLOCATION_LIMIT ? 0 : 1;
}

/* The block around the task has the exception come to frames of the library, which cannot load what they need. */
int run_where_nothing_can_be_loaded()
{
    const rlimit none{};
    setrlimit(RLIMIT_NOFILE, &none);
    try {
        return run_spending(STINT_JUMP) + run_spending(STINT_FAIL);
    } catch (...) {
        return 3;
    }
}

TEST(a_bad_alloc_that_leaves_a_task_ends_no_process_without_descriptors)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(run_where_nothing_can_be_loaded());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

TEST(an_unwind_is_refused)
{
    stint_link_report report = STINT_LINK_REPORT_INIT;
    assert_int_equal(stint_link_check(&report), 0);
    assert_false(report.unwinds);
    std::function<void()> nothing = [] {};
    stint_options options = limited();
    options.on_interrupt = STINT_UNWIND;
    stint_outcome outcome;
    assert_int_equal(stint_run(call, &nothing, &options, &outcome), ENOTSUP);
    stint_pool *pool;
    stint_future *future;
    assert_int_equal(stint_pool_create(nullptr, &pool), 0);
    assert_int_equal(stint_submit(pool, call, &nothing, &options, &future), ENOTSUP);
    assert_int_equal(stint_pool_destroy(pool), 0);
    options.on_interrupt = STINT_JUMP;
    assert_int_equal(stint_run(call, &nothing, &options, &outcome), 0);
}

TEST(exceptions_are_caught_outside_of_tasks)
{
    int caught = 0;
    for (int i = 0; i < 3; i++) {
        try {
            try {
                throw std::runtime_error("x");
            } catch (std::exception &error) {
                caught += strcmp(error.what(), "x") == 0;
                throw;
            }
        } catch (...) {
            caught++;
        }
    }
    assert_int_equal(caught, 6);
    assert_int_equal(std::uncaught_exceptions(), 0);
    assert_true(std::current_exception() == nullptr);
}

int initialised;

int initialise(bool fails)
{
    initialised++;
    if (fails)
        throw std::runtime_error("not yet");
    return 42;
}

int value_of(bool fails)
{
    static int value = initialise(fails);
    return value;
}

TEST(initialisers_run_until_one_succeeds)
{
    int thrown = 0;
    for (int i = 0; i < 2; i++) {
        try {
            value_of(true);
        } catch (std::exception &) {
            thrown++;
        }
    }
    std::thread others[4];
    for (auto &other : others)
        other = std::thread([] { value_of(false); });
    for (auto &other : others)
        other.join();
    assert_int_equal(value_of(true), 42);
    assert_int_equal(thrown, 2);
    assert_int_equal(initialised, 3);
}

TEST(a_catch_block_is_not_left)
{
    stint_options options = limited();
    options.on_interrupt = STINT_JUMP;
    auto outcome = run(options, [] {
        try {
            throw std::runtime_error("x");
        } catch (std::exception &) {
            sink = ::operator new(200000);
            note('1');
        }
        sink = ::operator new(1);
        note('W');
    });
    assert_stopped(outcome, "1");
    assert_true(std::current_exception() == nullptr);
}

TEST(a_refused_allocation_throws_bad_alloc)
{
    stint_options options = limited();
    options.on_interrupt = STINT_FAIL;
    auto outcome = run(options, [] {
        try {
            spend_array();
        } catch (std::bad_alloc &) {
            note('1');
        }
    });
    assert_stopped(outcome, "1");
}

} // namespace

TEST_MAIN()
