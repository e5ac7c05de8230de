/* SPDX-License-Identifier: MIT
 *
 * C++: initialisers of static variables, exceptions on their way and in catch blocks, variables of a thread with
 * constructors and destructors, a mutex, and what libstdc++ keeps of a locale when it has formatted a number. */
#include <array>
#include <atomic>
#include <exception>
#include <locale>
#include <mutex>
#include <new>
#include <sstream>
#include <stint/stint.hpp>
#include <string>
#include <utility>

#include "library.h"

extern "C" {
extern void *__dso_handle;
int __cxa_thread_atexit_impl(void (*function)(void *), void *object, void *dso);
}

namespace
{

/* --- Initialisers and exceptions ---------------------------------------------------------------------------------- */

struct given_up {
    int error;
};

/* If it cannot be made, the next task tries again. */
struct impossible_to_make {
    impossible_to_make()
    {
        throw given_up{ chaos_pass(20) };
    }
};

int make_in_vain()
{
    try {
        static impossible_to_make one;
    } catch (const given_up &given_up) {
        return given_up.error;
    }
    return 1;
}

struct allocates_at_the_end {
    int &error;
    ~allocates_at_the_end()
    {
        error = chaos_pass(20);
    }
};

int throw_past()
{
    int error = 0;
    try {
        allocates_at_the_end passed = { error };
        throw given_up{ 0 };
    } catch (const given_up &) {
    }
    return error;
}

int catch_and_allocate()
{
    try {
        throw given_up{ 0 };
    } catch (const given_up &) {
        return chaos_pass(20);
    }
}

bool has_no_exception()
{
    return std::uncaught_exceptions() == 0 && std::current_exception() == nullptr;
}

/* --- Variables of the thread: one more is made with each run ------------------------------------------------------ */

constexpr size_t MADE = 64;
constexpr uint64_t WHOLE = UINT64_C(0x123456789abcdef);

struct made_for_a_thread {
    uint64_t numbers[4] = {};
    made_for_a_thread()
    {
        chaos_pass(20);
        for (uint64_t &number : numbers)
            number = WHOLE;
    }
    ~made_for_a_thread()
    {
        numbers[0] = 0;
    }
    bool is_whole() const
    {
        return numbers[0] == WHOLE && numbers[3] == WHOLE;
    }
};

/* Of a class each: those of a namespace are made all at once, and gcc makes none of a template by itself. */
template <size_t number> struct holder {
    static thread_local made_for_a_thread of_thread;
};

template <size_t number> thread_local made_for_a_thread holder<number>::of_thread;

template <size_t number> bool is_whole()
{
    return holder<number>::of_thread.is_whole();
}

template <size_t... numbers> constexpr std::array<bool (*)(), sizeof...(numbers)> all(std::index_sequence<numbers...>)
{
    return { { is_whole<numbers>... } };
}

bool make_another()
{
    static constexpr auto made = all(std::make_index_sequence<MADE>());
    static thread_local size_t count;
    if (count < MADE)
        count++;
    bool are_whole = true;
    for (size_t i = 0; i < count; i++)
        are_whole = made[i]() && are_whole;
    return are_whole;
}

/* --- Locales: the first number that is formatted in each fills a cache -------------------------------------------- */

constexpr size_t LOCALES = 32;
constexpr size_t RENEWED = 4; /* by main, from time to time */

struct with_dots : std::numpunct<char> {
    char do_thousands_sep() const override
    {
        return '.';
    }
    std::string do_grouping() const override
    {
        return "\3";
    }
};

std::locale *locales[LOCALES];
std::mutex counting;
unsigned long begun, ended;

size_t next_number()
{
    std::lock_guard<std::mutex> held(counting);
    begun++;
    chaos_pass(5);
    return ended++;
}

/* A jump passes by the stream's destructor, and the stream counts as a user of its locale: without the guard the locale
 * would stay for good, with what tasks have left in it, and with their heaps. */
int format(unsigned variant, uint64_t *sum)
{
    std::ostringstream out;
    const std::locale &locale = *locales[next_number() % LOCALES];
    stint_mask();
    const stint::Guard leave([&out] { out.imbue(std::locale::classic()); });
    out.imbue(locale);
    stint_unmask();
    for (unsigned i = 0; i < 10; i++)
        out << 1234567 * (i + variant) << ' ' << 0.5 * i << ' ';
    chaos_add_text(sum, out.str().c_str());
    return chaos_pass(10);
}

void renew_locales()
{
    static size_t next;
    for (size_t i = 0; i < RENEWED; i++, next = (next + 1) % LOCALES) {
        delete locales[next];
        locales[next] = new std::locale(std::locale::classic(), new with_dots);
    }
}

void ready()
{
    for (size_t i = 0; i < LOCALES; i += RENEWED)
        renew_locales();
}

int work(unsigned variant, uint64_t *sum)
{
    try {
        int error = format(variant, sum);
        if (error == 0)
            error = variant % 2 == 0 ? make_in_vain() : throw_past();
        return error == 0 ? catch_and_allocate() : error;
    } catch (const std::bad_alloc &) {
        return -1;
    }
}

void at_end_of_thread(void *)
{
}

/* libstdc++ notes destructors for the end of a thread even if memory is refused. The library does not see a variable
 * while it is being made. */
int run(unsigned variant, uint64_t *sum)
{
    chaos_add_number(sum, has_no_exception());
    int error = work(variant, sum);
    __cxa_thread_atexit_impl(at_end_of_thread, nullptr, &__dso_handle);
    stint_mask();
    chaos_add_number(sum, make_another());
    stint_unmask();
    return error;
}

bool idle()
{
    renew_locales();
    std::unique_lock<std::mutex> held(counting, std::try_to_lock);
    return held.owns_lock() && begun == ended;
}

} // namespace

extern const struct chaos_library chaos_cxx = {
    "c++", CHAOS_ANY_MODE, true, ready, run, idle, nullptr, nullptr, nullptr
};
