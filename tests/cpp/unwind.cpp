/* SPDX-License-Identifier: MIT
 *
 * STINT_UNWIND: what runs, and in which order, when a task is left frame by frame. */
#include <fcntl.h>
#include <pthread.h>
#include <stdexcept>
#include <stdlib.h>
#include <string>
#include <unistd.h>
#include <vector>

#include "trail.h"

namespace
{

TEST(destructors_run_once_and_innermost_first)
{
    void (*const spenders[])() = { spend_new, spend_array };
    for (auto spend : spenders) {
        auto outcome = run(limited(), [=] {
            Mark outer('3');
            in_frame('2', [=] { in_frame('1', spend); });
        });
        assert_stopped(outcome, "123");
        assert_true(outcome.usage.allocated <= 100000);
    }
}

TEST(destructors_run_at_sample_points_that_allocate_nothing)
{
    void (*const spenders[])() = { spend_checkpoint, spend_mask };
    for (auto spend : spenders) {
        stint_token *token;
        assert_int_equal(stint_token_create(nullptr, &token), 0);
        stint_options options = limited(0);
        options.token = token;
        auto outcome = run(options, [=] {
            in_frame('2', [=] {
                in_frame('1', [=] {
                    stint_token_set(token);
                    spend();
                });
            });
        });
        stint_token_release(token);
        assert_string_equal(trail, "12");
        assert_int_equal(outcome.reason, STINT_REASON_TOKEN);
    }
}

TEST(destructors_know_that_they_are_unwound)
{
    static int seen[2];
    struct Asks {
        int at;
        ~Asks()
        {
            seen[at] = std::uncaught_exceptions() * 10 + (stint_is_interrupted() ? 1 : 0);
        }
    };
    auto outcome = run(limited(), [] {
        in_frame('2', [] {
            Asks asks{ 1 };
            try {
                Asks asks_inside{ 0 };
                spend_new();
            } catch (...) {
                note('c');
                throw;
            }
        });
    });
    assert_stopped(outcome, "c2");
    assert_int_equal(seen[0], 11);
    assert_int_equal(seen[1], 11);
}

TEST(destructors_may_allocate_within_the_grace)
{
    struct Allocates {
        ~Allocates()
        {
            std::string text(10000, 'x');
            note(text.size() == 10000 ? 'a' : 'A');
        }
    };
    auto outcome = run(limited(), [] {
        Mark outer('2');
        Allocates allocates;
        spend_new();
    });
    assert_stopped(outcome, "a2");
}

NOINLINE void guarded()
{
    GUARD(older, '4');
    GUARD(newer, '3');
    Mark mark('2');
    in_frame('1', spend_new);
    stint_guard_pop(&newer, true);
    stint_guard_pop(&older, true);
}

TEST(guards_run_when_their_frames_destructors_have)
{
    auto outcome = run(limited(), [] {
        Mark outermost('6');
        GUARD(outer, '7');
        in_frame('5', guarded);
    });
    assert_stopped(outcome, "1234567");
}

TEST(hooks_of_frames_that_are_gone_are_not_called)
{
    auto outcome = run(limited(), [] {
        static auto fired = [](void *) { note('h'); };
        in_frame('2', [] {
            stint_hook hook;
            stint_hook_push(&hook, fired, nullptr);
            in_frame('1', spend_new);
        });
    });
    assert_stopped(outcome, "h12");
}

TEST(catch_blocks_of_types_are_passed_by)
{
    auto outcome = run(limited(), [] {
        in_frame('2', [] {
            try {
                in_frame('1', spend_new);
            } catch (std::exception &) {
                note('E');
            } catch (int) {
                note('I');
            }
            note('N');
        });
    });
    assert_stopped(outcome, "12");
}

TEST(catch_all_blocks_run_and_throw_again)
{
    auto task = [] {
        in_frame('5', [] {
            try {
                in_frame('3', [] {
                    try {
                        in_frame('1', spend_new);
                    } catch (...) {
                        note('2');
                        throw;
                    }
                });
            } catch (abi::__forced_unwind &) {
                try {
                    throw 1;
                } catch (int) {
                    note('4');
                }
                throw;
            }
        });
    };
    /* Twice: nothing of the first may be held in the way of the second. */
    for (int i = 0; i < 2; i++)
        assert_stopped(run(limited(), task), "12345");
}

TEST(an_unwind_that_is_caught_and_kept_comes_again)
{
    auto outcome = run(limited(), [] {
        in_frame('5', [] {
            try {
                in_frame('1', spend_new);
            } catch (...) {
                note('2');
            }
            note(std::uncaught_exceptions() == 0 ? '3' : 'U');
            in_frame('4', spend_new);
        });
    });
    assert_stopped(outcome, "12345");
}

TEST(it_comes_again_at_the_very_next_allocation)
{
    stint_options options = limited(0);
    stint_outcome outcome;
    options.budget.wall_ns = 1000000;
    do { /* On a busy machine it may pass before the first of them. */
        outcome = run(options, [] {
            in_frame('3', [] {
                sink = ::operator new(1);
                try {
                    in_frame('1', spend_checkpoint);
                } catch (...) {
                    note('2');
                }
                sink = ::operator new(1);
                note('L');
            });
        });
        assert_int_equal(outcome.reason, STINT_REASON_DEADLINE);
        options.budget.wall_ns *= 2;
    } while (strcmp(trail, "3") == 0);
    assert_string_equal(trail, "123");
}

TEST(an_unwind_that_is_made_another_exception_comes_again)
{
    auto outcome = run(limited(), [] {
        in_frame('5', [] {
            try {
                try {
                    in_frame('1', spend_new);
                } catch (...) {
                    note('2');
                    throw std::runtime_error("stopped");
                }
            } catch (std::runtime_error &) {
                note(std::uncaught_exceptions() == 0 ? '3' : 'U');
            }
            in_frame('4', spend_checkpoint);
        });
    });
    assert_stopped(outcome, "12345");
}

TEST(a_scope_inside_a_catch_block_unwinds_through_catch_all_blocks)
{
    std::string before;
    char seen[sizeof trail] = "";
    try {
        throw std::runtime_error("before");
    } catch (std::exception &) {
        run(limited(), [] {
            try {
                in_frame('1', spend_new);
            } catch (...) {
                note('2');
                throw;
            }
        });
        memcpy(seen, trail, sizeof trail);
        try {
            throw;
        } catch (std::exception &again) {
            before = again.what();
        }
    }
    assert_string_equal(seen, "12");
    assert_string_equal(before.c_str(), "before");
    assert_int_equal(std::uncaught_exceptions(), 0);
}

TEST(exceptions_of_the_task_work_as_ever)
{
    stint_outcome outcome = run(limited(), [] {
        for (int i = 0; i < 100; i++) {
            try {
                in_frame('1', [] { throw std::runtime_error("x"); });
            } catch (std::exception &) {
                note('2');
            }
            trail[0] = '\0';
        }
        note('e');
    });
    assert_string_equal(trail, "e");
    assert_int_equal(outcome.status, STINT_OK);
}

/* The inner scope is left in its own mode, and then the outer one in its. */
TEST(nested_scopes_are_left_each_in_its_own_mode)
{
    const stint_on_interrupt modes[] = { STINT_JUMP, STINT_UNWIND, STINT_FAIL };
    for (auto outer : modes) {
        for (auto inner : modes) {
            static stint_options inner_options;
            inner_options = STINT_OPTIONS_INIT;
            inner_options.on_interrupt = inner;
            stint_options options = limited();
            options.on_interrupt = outer;
            auto outcome = run(options, [] {
                GUARD(guard, 'g');
                in_frame('o', [] {
                    std::function<void()> task = [] {
                        in_frame('i', [] {
                            try {
                                spend_new();
                            } catch (std::bad_alloc &) {
                                note('b');
                            }
                        });
                    };
                    stint_outcome nested;
                    stint_run(call, &task, &inner_options, &nested);
                    note(nested.reason == STINT_REASON_OUTER ? 'n' : 'N');
                });
                stint_guard_pop(&guard, true);
            });
            std::string expected = inner == STINT_JUMP ? "" : inner == STINT_UNWIND ? "i" : "bFi";
            expected += outer == STINT_JUMP ? "g" : outer == STINT_UNWIND ? "og" : "nFog";
            assert_stopped(outcome, expected.c_str());
        }
    }
}

TEST(an_inner_limit_unwinds_the_inner_scope_only)
{
    auto outcome = run(limited(10000000), [] {
        in_frame('2', [] {
            std::function<void()> task = [] { in_frame('1', spend_new); };
            stint_options options = limited();
            stint_outcome nested;
            stint_run(call, &task, &options, &nested);
            note(nested.reason == STINT_REASON_ALLOCATION_LIMIT ? 'n' : 'N');
            sink = ::operator new(1000);
        });
    });
    assert_string_equal(trail, "1nF2");
    assert_int_equal(outcome.status, STINT_OK);
}

TEST(a_destructor_may_run_a_scope_of_its_own)
{
    struct Runs {
        ~Runs()
        {
            std::function<void()> task = [] {
                in_frame('4', [] {
                    try {
                        in_frame('2', spend_new);
                    } catch (...) {
                        note('3');
                        throw;
                    }
                });
            };
            stint_options options = limited(50000);
            stint_outcome nested;
            stint_run(call, &task, &options, &nested);
            note(nested.reason == STINT_REASON_ALLOCATION_LIMIT ? '5' : 'N');
        }
    };
    stint_options options = limited(0);
    options.budget.wall_ns = 1000000;
    auto outcome = run(options, [] {
        in_frame('6', [] {
            Runs runs;
            in_frame('1', spend_checkpoint);
        });
    });
    assert_string_equal(trail, "123456");
    assert_int_equal(outcome.reason, STINT_REASON_DEADLINE);
}

/* The outer limit is found first, so the inner scope goes on until its memory is refused. */
TEST(also_when_the_limit_that_is_passed_is_the_outer_ones)
{
    struct Runs {
        ~Runs()
        {
            std::function<void()> task = [] { in_frame('2', spend_new); };
            stint_options options = limited(5000);
            stint_outcome nested;
            stint_run(call, &task, &options, &nested);
            note(nested.status == STINT_CANCELLED || nested.status == STINT_ERROR ? '3' : 'N');
        }
    };
    auto outcome = run(limited(50000), [] {
        in_frame('4', [] {
            Runs runs;
            in_frame('1', spend_new);
        });
    });
    assert_string_equal(trail, "1234");
    assert_int_equal(outcome.reason, STINT_REASON_ALLOCATION_LIMIT);
}

size_t resident()
{
    char text[128] = "";
    int file = open("/proc/self/statm", O_RDONLY);
    assert_true(file >= 0 && read(file, text, sizeof text - 1) > 0);
    close(file);
    return strtoul(strchr(text, ' '), nullptr, 10) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

/* --- A guard that ends the thread. --- */

void end_thread(void *)
{
    note('2');
    pthread_exit(nullptr);
}

NOINLINE void spend_guarded()
{
    stint_guard guard;
    stint_guard_push(&guard, end_thread, nullptr);
    in_frame('1', spend_new);
    stint_guard_pop(&guard, true);
}

void *run_ending(void *account)
{
    stint_options options = limited();
    options.account = static_cast<stint_account *>(account);
    run(options, [] {
        Mark outer('3');
        spend_guarded();
    });
    note('R');
    return nullptr;
}

void *run_again(void *account)
{
    stint_options options = limited();
    options.account = static_cast<stint_account *>(account);
    assert_stopped(run(options, [] { in_frame('1', spend_new); }), "1");
    return nullptr;
}

TEST(a_guard_that_ends_the_thread_takes_the_task_along)
{
    stint_account_usage usage = STINT_ACCOUNT_USAGE_INIT;
    stint_account *account;
    pthread_t thread;
#ifdef __SANITIZE_ADDRESS__
    skip_because("AddressSanitizer takes unwound frames for living ones");
#endif
    assert_int_equal(stint_account_create(nullptr, nullptr, &account), 0);
    assert_int_equal(pthread_create(&thread, nullptr, run_ending, account), 0);
    pthread_join(thread, nullptr);
    assert_string_equal(trail, "123");
    assert_int_equal(stint_account_read(account, &usage), 0);
    assert_int_equal(usage.running, 0);
    assert_int_equal(pthread_create(&thread, nullptr, run_again, account), 0);
    pthread_join(thread, nullptr);
    stint_account_release(account);
}

TEST(ten_thousand_unwinds_leave_nothing_behind)
{
    auto once_more = [] {
        return run(limited(), [] {
            std::vector<std::string> kept;
            try {
                for (;;)
                    kept.emplace_back(100, 'x');
            } catch (...) {
                note('1');
                throw;
            }
        });
    };
    for (int i = 0; i < 1000; i++)
        assert_stopped(once_more(), "1");
    size_t before = resident();
    for (int i = 0; i < 10000; i++)
        assert_stopped(once_more(), "1");
    assert_in_range(resident(), 0, before + (size_t(4) << 20));
}

} // namespace

TEST_MAIN()
