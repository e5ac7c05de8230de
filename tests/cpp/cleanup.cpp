/* SPDX-License-Identifier: MIT
 *
 * Handlers that pthread_cleanup_push has pushed, with <stint/cleanup.h>: each runs once, however its block is left.
 * C++, and C with -fexceptions (cleanup_block.c). */
#include "trail.h"

#include <stdexcept>

#include <stint/cleanup.h>

extern "C" void in_c_block(void (*handler)(void *), void *arg, void (*function)(void));

namespace
{

const stint_on_interrupt modes[] = { STINT_JUMP, STINT_UNWIND };

NOINLINE void in_block(void (*function)())
{
    pthread_cleanup_push(note_letter, const_cast<char *>("1"));
    Mark mark('2');
    pthread_cleanup_push(note_letter, const_cast<char *>("3"));
    function();
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(1);
}

void in_blocks_of_c(void (*function)())
{
    in_c_block(note_letter, const_cast<char *>("4"), function);
}

void nothing()
{
}

TEST(a_handler_runs_when_its_task_is_interrupted)
{
    for (auto mode : modes) {
        for (auto function : { spend_new, spend_array }) {
            stint_options options = limited();
            options.on_interrupt = mode;
            auto outcome = run(options, [function] { in_block(function); });
            assert_stopped(outcome, mode == STINT_JUMP ? "31" : "321");
            outcome = run(options, [function] { in_blocks_of_c(function); });
            assert_stopped(outcome, "4");
        }
    }
}

void throw_something()
{
    throw std::runtime_error("x");
}

TEST(a_handler_runs_as_without_an_interrupt)
{
    for (bool in_task : { false, true }) {
        stint_options options = limited();
        std::function<void()> work = [] {
            in_block(nothing);
            try {
                in_block(throw_something);
            } catch (std::runtime_error &) {
                note('5');
            }
            in_blocks_of_c(nothing);
        };
        trail[0] = '\0';
        if (in_task)
            run(options, work);
        else
            work();
        assert_string_equal(trail, "2132154");
    }
}

void *be_cancelled(void *)
{
    in_block([] {
        for (;;)
            pthread_testcancel();
    });
    return nullptr;
}

void *exit_thread(void *)
{
    in_block([] { pthread_exit(nullptr); });
    return nullptr;
}

TEST(a_handler_runs_when_its_thread_ends)
{
    for (auto function : { be_cancelled, exit_thread }) {
        pthread_t thread;
        trail[0] = '\0';
        assert_int_equal(pthread_create(&thread, nullptr, function, nullptr), 0);
        if (function == be_cancelled)
            pthread_cancel(thread);
        pthread_join(thread, nullptr);
        assert_true(strcmp(trail, "321") == 0 || (function == be_cancelled && trail[0] == '\0'));
    }
}

} // namespace

TEST_MAIN()
