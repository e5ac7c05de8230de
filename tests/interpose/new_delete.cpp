/* SPDX-License-Identifier: MIT
 *
 * C++: operator new and delete in all their forms, refusals as exceptions, and the containers of the standard library
 * stopped in the middle. */
#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "test.h"
#include <stint/stint.h>

namespace
{

const size_t limit = 64 * 1024;

stint_outcome run_task(stint_fn *fn, void *arg, stint_on_interrupt mode)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.allocation = limit;
    options.on_interrupt = mode;
    stint_outcome outcome;
    assert_int_equal(stint_run(fn, arg, &options, &outcome), 0);
    return outcome;
}

/* The compiler may leave out a pair of new and delete whose block it can follow. */
template <typename T> T *keep(T *block)
{
    __asm__ volatile("" : "+r"(block) : : "memory");
    return block;
}

struct alignas(64) wide {
    char bytes[64];
};

/* Every form once; how many came out as they should. */
int use_every_form()
{
    int good = 0;
    const std::align_val_t wide_alignment{ 64 };
    void *one = keep(::operator new(10));
    good += one != nullptr;
    ::operator delete(one);
    one = keep(::operator new[](10));
    good += one != nullptr;
    ::operator delete[](one);
    one = keep(::operator new(10, std::nothrow));
    good += one != nullptr;
    ::operator delete(one, std::nothrow);
    one = keep(::operator new[](10, std::nothrow));
    good += one != nullptr;
    ::operator delete[](one, std::nothrow);
    one = keep(::operator new(10, wide_alignment));
    good += one != nullptr && reinterpret_cast<uintptr_t>(one) % 64 == 0;
    ::operator delete(one, wide_alignment);
    one = keep(::operator new[](10, wide_alignment));
    good += one != nullptr && reinterpret_cast<uintptr_t>(one) % 64 == 0;
    ::operator delete[](one, wide_alignment);
    one = keep(::operator new(10, wide_alignment, std::nothrow));
    good += one != nullptr && reinterpret_cast<uintptr_t>(one) % 64 == 0;
    ::operator delete(one, wide_alignment, std::nothrow);
    one = keep(::operator new[](10, wide_alignment, std::nothrow));
    good += one != nullptr && reinterpret_cast<uintptr_t>(one) % 64 == 0;
    ::operator delete[](one, wide_alignment, std::nothrow);
    one = keep(::operator new(10));
    ::operator delete (one, std::size_t{ 10 });
    one = keep(::operator new[](10));
    ::operator delete[](one, std::size_t{ 10 });
    one = keep(::operator new(10, wide_alignment));
    ::operator delete (one, std::size_t{ 10 }, wide_alignment);
    one = keep(::operator new[](10, wide_alignment));
    ::operator delete[](one, std::size_t{ 10 }, wide_alignment);
    delete keep(new wide);
    delete[] keep(new wide[3]);
    return good;
}

int every_form(void *good, void **)
{
    *static_cast<int *>(good) = use_every_form();
    return 0;
}

TEST(every_form_makes_blocks_that_are_charged)
{
    assert_int_equal(use_every_form(), 8);
    int good = 0;
    stint_outcome outcome = run_task(every_form, &good, STINT_JUMP);
    assert_int_equal(outcome.status, STINT_OK);
    assert_int_equal(good, 8);
    /* 10 bytes: 16 each, 80 each where aligned to 64; 64 and 192 bytes so aligned. */
    assert_int_equal(outcome.usage.allocated, 6 * 16 + 6 * 80 + 128 + 256);
}

struct refusals {
    int thrown;
    int null;
    int calls;
};

template <typename F> void count(refusals &seen, F allocate)
{
    seen.calls++;
    try {
        seen.null += allocate() == nullptr;
    } catch (const std::bad_alloc &) {
        seen.thrown++;
    }
}

int try_every_form(void *arg, void **)
{
    refusals &seen = *static_cast<refusals *>(arg);
    const std::align_val_t wide_alignment{ 64 };
    count(seen, [] { return keep(::operator new(limit + 1)); });
    count(seen, [] { return keep(::operator new(1)); });
    count(seen, [] { return keep(::operator new[](1)); });
    count(seen, [=] { return keep(::operator new(1, wide_alignment)); });
    count(seen, [=] { return keep(::operator new[](1, wide_alignment)); });
    count(seen, [] { return keep(::operator new(1, std::nothrow)); });
    count(seen, [] { return keep(::operator new[](1, std::nothrow)); });
    count(seen, [=] { return keep(::operator new(1, wide_alignment, std::nothrow)); });
    count(seen, [=] { return keep(::operator new[](1, wide_alignment, std::nothrow)); });
    return 0;
}

TEST(in_fail_mode_new_throws_and_the_nothrow_forms_return_null)
{
    for (int round = 0; round < 100; round++) {
        refusals seen = { 0, 0, 0 };
        stint_outcome outcome = run_task(try_every_form, &seen, STINT_FAIL);
        assert_int_equal(outcome.status, STINT_ERROR);
        assert_int_equal(outcome.reason, STINT_REASON_ALLOCATION_LIMIT);
        assert_int_equal(seen.calls, 9);
        assert_int_equal(seen.thrown, 5);
        assert_int_equal(seen.null, 4);
    }
}

int handler_calls;

void count_and_give_up()
{
    if (++handler_calls == 3)
        std::set_new_handler(nullptr);
}

size_t impossible()
{
    size_t size = SIZE_MAX / 2;
    __asm__ volatile("" : "+r"(size));
    return size;
}

int allocate_impossibly(void *thrown, void **)
{
    try {
        keep(::operator new(impossible()));
    } catch (const std::bad_alloc &) {
        *static_cast<bool *>(thrown) = true;
    }
    return 0;
}

TEST(the_new_handler_is_called_for_want_of_memory_and_not_for_an_interrupt)
{
    bool thrown = false;
    stint_outcome outcome;
    handler_calls = 0;
    std::set_new_handler(count_and_give_up);
    assert_int_equal(stint_run(allocate_impossibly, &thrown, nullptr, &outcome), 0);
    assert_int_equal(outcome.status, STINT_OK);
    assert_int_equal(handler_calls, 3);
    assert_true(thrown);

    handler_calls = 0;
    std::set_new_handler(count_and_give_up);
    refusals seen = { 0, 0, 0 };
    run_task(try_every_form, &seen, STINT_FAIL);
    std::set_new_handler(nullptr);
    assert_int_equal(seen.thrown, 5);
    assert_int_equal(handler_calls, 0);
}

bool has_waited_in_vain;

void wait_for_an_interrupt()
{
    time_t end = time(nullptr) + 10;
    while (time(nullptr) < end)
        stint_checkpoint();
    has_waited_in_vain = true;
    std::set_new_handler(nullptr);
}

TEST(a_task_is_left_in_the_new_handler)
{
    bool thrown = false;
    stint_outcome outcome;
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.wall_ns = 20000000;
    std::set_new_handler(wait_for_an_interrupt);
    assert_int_equal(stint_run(allocate_impossibly, &thrown, &options, &outcome), 0);
    std::set_new_handler(nullptr);
    assert_false(has_waited_in_vain);
    assert_int_equal(outcome.reason, STINT_REASON_DEADLINE);
}

int destroyed;

struct counted {
    ~counted()
    {
        destroyed++;
    }
};

int grow_containers(void *, void **)
{
    counted here;
    std::vector<std::string> strings;
    std::map<int, std::unique_ptr<std::vector<int>>> map;
    for (int i = 0;; i++) {
        strings.push_back(std::string(100, 'x'));
        map[i] = std::make_unique<std::vector<int>>(100);
    }
}

int grow_containers_and_catch(void *, void **value)
{
    try {
        return grow_containers(nullptr, value);
    } catch (const std::bad_alloc &) {
        return 0;
    }
}

TEST(containers_are_left_by_a_jump_or_unwound_by_bad_alloc)
{
    for (int round = 0; round < 200; round++) {
        destroyed = 0;
        stint_outcome outcome = run_task(grow_containers, nullptr, STINT_JUMP);
        assert_int_equal(outcome.reason, STINT_REASON_ALLOCATION_LIMIT);
        assert_int_equal(destroyed, 0);
        outcome = run_task(grow_containers_and_catch, nullptr, STINT_FAIL);
        assert_int_equal(outcome.reason, STINT_REASON_ALLOCATION_LIMIT);
        assert_int_equal(destroyed, 1);
    }
}

int throw_inside(void *, void **)
{
    for (int i = 0; i < 100; i++) {
        try {
            throw std::string(100, 'y');
        } catch (const std::string &) {
        }
    }
    return 0;
}

TEST(exceptions_inside_a_task_are_its_own)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    options.budget.memory = 64 * 1024;
    assert_int_equal(stint_run(throw_inside, nullptr, &options, &outcome), 0);
    assert_int_equal(outcome.status, STINT_OK);
}

} // namespace

TEST_MAIN()
