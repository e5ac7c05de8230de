/* SPDX-License-Identifier: MIT
 *
 * Automatic masking in C++: static initialisers, catch blocks, and the standard library's locks. A jump runs no
 * destructors. */
#include <exception>
#include <locale>
#include <mutex>
#include <shared_mutex>
#include <sstream>
#include <string>

#include "masking.h" /* last: cmocka has a macro of the name of a function of theirs */

namespace
{

struct slow_to_make {
    slow_to_make()
    {
        trip_and_allocate();
    }
};

/* Entered for the first time in a task. */
void enter(const void *)
{
    static slow_to_make one;
}

void *enter_elsewhere(void *)
{
    watch();
    enter(nullptr);
    return nullptr;
}

void jump_out_of_a_static_initialiser(const void *)
{
    stint_outcome outcome = run_tripped(STINT_JUMP, enter, nullptr);
    REQUIRE(!masking_rule_on || outcome.usage.deferred > 0);
    in_another_thread(enter_elsewhere, nullptr);
}

/* The first number that is formatted in a locale fills a cache. */
std::string formatted()
{
    std::ostringstream out;
    out << 1234567.5;
    return out.str();
}

void format_and_trip(const void *)
{
    masking_keep(&formatted()[0]);
    trip();
}

void lose_the_cache_of_a_facet(const void *)
{
    std::locale before = std::locale::global(std::locale("C.UTF-8"));
    run_tripped(STINT_JUMP, format_and_trip, nullptr);
    for (size_t size = 16; size <= 1024; size += 16)
        overwrite_freed_blocks(size);
    CHECK(formatted() == "1.23457e+06");
    std::locale::global(before);
}

/* An initialiser that throws gives its guard back, and runs again. */

int attempts;

struct impossible_to_make {
    impossible_to_make()
    {
        attempts++;
        throw attempts;
    }
};

void enter_in_vain(const void *)
{
    try {
        static impossible_to_make one;
    } catch (int) {
    }
    trip_and_allocate();
}

void catch_and_allocate(const void *)
{
    try {
        throw 1;
    } catch (int) {
        trip_and_allocate();
    }
}

void jump_out_of_a_catch_block(const void *)
{
    stint_outcome outcome = run_tripped(STINT_JUMP, catch_and_allocate, nullptr);
    REQUIRE(!masking_rule_on || outcome.usage.deferred > 0);
    CHECK(std::current_exception() == nullptr);
    CHECK(outcome.usage.kept == 0);
}

struct allocates_at_the_end {
    ~allocates_at_the_end()
    {
        trip_and_allocate();
    }
};

void allocate_while_throwing(const void *)
{
    try {
        allocates_at_the_end passed;
        throw 1;
    } catch (int) {
    }
}

void jump_past_an_exception_on_its_way(const void *)
{
    stint_outcome outcome = run_tripped(STINT_JUMP, allocate_while_throwing, nullptr);
    REQUIRE(!masking_rule_on || outcome.usage.deferred > 0);
    CHECK(std::uncaught_exceptions() == 0);
}

template <class Mutex> Mutex mutex;

template <class Mutex> void hold(const void *)
{
    std::lock_guard<Mutex> held(mutex<Mutex>);
    trip_and_allocate();
}

template <class Mutex> void *take_elsewhere(void *)
{
    CHECK(mutex<Mutex>.try_lock());
    mutex<Mutex>.unlock();
    return nullptr;
}

template <class Mutex> void jump_out_of_a_lock_guard(const void *)
{
    run_tripped(STINT_JUMP, hold<Mutex>, nullptr);
    in_another_thread(take_elsewhere<Mutex>, nullptr);
}

TEST(a_failed_initialiser_and_a_finished_catch_block_hold_nothing)
{
    stint_outcome outcome = run_tripped(STINT_JUMP, enter_in_vain, nullptr);
    assert_int_equal(outcome.usage.deferred, 0);
    outcome = run_tripped(STINT_JUMP, enter_in_vain, nullptr);
    assert_int_equal(outcome.usage.deferred, 0);
    assert_int_equal(attempts, 2);
}

} // namespace

int main(int argc, char **argv)
{
    static struct masking_case cases[] = {
        { "a jump out of a static initialiser", STI_RULE_STATIC, HANGS, jump_out_of_a_static_initialiser, nullptr },
        { "the cache of a facet", STI_RULE_CXX_CACHES, CHECK_FAILS | CRASHES, lose_the_cache_of_a_facet, nullptr },
        { "a jump out of a catch block", STI_RULE_CATCH, CHECK_FAILS, jump_out_of_a_catch_block, nullptr },
        { "a jump past an exception on its way", STI_RULE_THROW, CHECK_FAILS, jump_past_an_exception_on_its_way,
          nullptr },
        { "a jump with a std::mutex held", STI_RULE_LOCK, CHECK_FAILS, jump_out_of_a_lock_guard<std::mutex>, nullptr },
        { "a jump with a std::shared_timed_mutex held", STI_RULE_LOCK, CHECK_FAILS,
          jump_out_of_a_lock_guard<std::shared_timed_mutex>, nullptr },
    };
    int failed = masking_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
    return argc == 1 ? failed + run_all_tests(nullptr, nullptr) : failed;
}
