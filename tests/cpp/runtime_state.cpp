/* SPDX-License-Identifier: MIT
 *
 * State that the C++ runtime keeps for the process or the thread, first made in a task that is rolled back. */
#include <ctime>
#include <iomanip>
#include <locale>
#include <pthread.h>
#include <sstream>
#include <string>
#include <wchar.h>

#include "trail.h" /* last: cmocka has a macro of the name of a function of theirs */

namespace
{

std::string formatted()
{
    std::ostringstream out;
    std::tm time = {};
    out << 1234567.5 << ' ' << 42 << ' ' << true << ' ' << std::put_money(1234.0L) << ' '
        << std::put_time(&time, "%A %x");
    std::wostringstream wide;
    wide << 1234567.5 << L' ' << 42;
    std::istringstream in("77 1.5");
    int number = 0;
    double fraction = 0;
    in >> number >> fraction;
    return out.str() + std::to_string(wide.str().size()) + std::to_string(number) + std::to_string(fraction);
}

/* With a locale of its own. */
std::string expected_text()
{
    std::locale before = std::locale::global(std::locale("C.UTF-8"));
    std::string text = formatted();
    std::locale::global(before);
    return text;
}

/* Takes and overwrites what the task has given back. */
void overwrite()
{
    for (size_t size = 8; size <= 1024; size += 8) {
        void *blocks[64];
        for (void *&block : blocks)
            memset(block = ::operator new(size), 0xee, size);
        for (void *block : blocks)
            ::operator delete(block);
    }
}

TEST(caches_of_a_locale_outlive_the_task_that_filled_them)
{
    std::string expected = expected_text();
    const stint_on_interrupt modes[] = { STINT_JUMP, STINT_FAIL, STINT_UNWIND };
    for (auto mode : modes) {
        std::locale before = std::locale::global(std::locale("C.UTF-8"));
        stint_options options = limited(1 << 20);
        options.on_interrupt = mode;
        auto outcome = run(options, [] {
            formatted();
            try {
                spend_new();
            } catch (std::bad_alloc &) {
            }
        });
        assert_stopped(outcome, "");
        sink = nullptr;
        assert_int_equal(run(limited(0), overwrite).status, STINT_OK);
        assert_string_equal(formatted().c_str(), expected.c_str());
        std::locale::global(before);
    }
}

TEST(a_locale_that_a_task_makes_global_outlives_it)
{
    std::string expected = expected_text();
    std::locale before;
    auto outcome = run(limited(), [] {
        std::locale::global(std::locale("C.UTF-8"));
        spend_new();
    });
    assert_int_equal(outcome.reason, STINT_REASON_ALLOCATION_LIMIT);
    assert_int_equal(run(limited(0), overwrite).status, STINT_OK);
    assert_string_equal(std::locale().name().c_str(), "C.UTF-8");
    assert_string_equal(formatted().c_str(), expected.c_str());
    std::locale::global(before);
}

TEST(what_a_string_grows_by_is_the_tasks)
{
    stint_options options = limited(0);
    options.budget.memory = 4 << 20;
    auto outcome = run(options, [] {
        std::string text;
        for (;;)
            text += "0123456789";
    });
    assert_int_equal(outcome.reason, STINT_REASON_MEMORY_LIMIT);
}

/* --- Threads
 * ---------------------------------------------------------------------------------------------------------- */

int destroyed;

struct Counts {
    int number = 1;
    Counts()
    {
    }
    ~Counts()
    {
        destroyed++;
    }
};

NOINLINE int use_thread_local()
{
    static thread_local Counts counts;
    return counts.number;
}

/* libc registers the destructor in a block of its own, and ends the process if it gets none. */
TEST(a_thread_local_is_made_though_the_grace_is_spent)
{
    static int used;
    pthread_t thread;
    auto main = [](void *) -> void * {
        stint_options options = limited();
        options.on_interrupt = STINT_FAIL;
        auto outcome = run(options, [] {
            while ((sink = malloc(1000)) != nullptr)
                ;
            while ((sink = wcsdup(L"on the grace")) != nullptr)
                ;
            used = use_thread_local();
        });
        static_cast<void>(outcome);
        return nullptr;
    };
    assert_int_equal(pthread_create(&thread, nullptr, main, nullptr), 0);
    pthread_join(thread, nullptr);
    assert_int_equal(used, 1);
    assert_int_equal(destroyed, 1);
}

TEST(a_cleanup_handler_runs_when_its_frame_is_unwound)
{
    auto outcome = run(limited(), [] {
        pthread_cleanup_push(note_letter, const_cast<char *>("1"));
        spend_new();
        pthread_cleanup_pop(1);
    });
    assert_stopped(outcome, "1");
}

} // namespace

TEST_MAIN()
