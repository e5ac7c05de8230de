/* SPDX-License-Identifier: MIT
 *
 * C++ that recurses for ever: destructors run where the code comes to an allocation, and the thread goes on in any
 * case. */
#include "trail.h"

#include <string>
#include <vector>

#include <stint/stint.hpp>

namespace
{

volatile bool never;
size_t alive;

struct Counted {
    Counted()
    {
        alive++;
    }
    Counted(const Counted &) = delete;
    Counted &operator=(const Counted &) = delete;
    NOINLINE ~Counted()
    {
        alive--;
    }
};

NOINLINE int recurse_and_allocate(int depth)
{
    const Counted counted;
    std::vector<int> numbers(10, depth);
    sink = numbers.data(); /* or clang does without */
    return never ? depth : recurse_and_allocate(depth + 1) + numbers[3];
}

/* Its own frame is the first that touches the end. */
NOINLINE int recurse_widely(int depth)
{
    const Counted counted;
    volatile char room[4000];
    room[0] = static_cast<char>(depth);
    sink = ::operator new(10);
    return never ? depth : recurse_widely(depth + 1) + room[0];
}

NOINLINE int recurse(int depth)
{
    const Counted counted;
    volatile int here = depth;
    return never ? depth : recurse(depth + 1) + here;
}

NOINLINE int recurse_noexcept(int depth) noexcept
{
    const Counted counted;
    std::vector<int> numbers(10, depth);
    sink = numbers.data(); /* or clang does without */
    return never ? depth : recurse_noexcept(depth + 1) + numbers[3];
}

/* Each time that the frames are asked again, 1 to 16 KiB later, is one at which it may not be left: in libstdc++. */
NOINLINE int recurse_with_text(int depth)
{
    const Counted counted;
    volatile char room[500];
    room[0] = static_cast<char>(depth);
    const std::string text(40, 'a');
    sink = ::operator new(600);
    return never ? depth : recurse_with_text(depth + 1) + text[3] + room[0];
}

template <int (*function)(int)> int run_function(void *, void **)
{
    return function(0);
}

stint_outcome run_bomb(stint_fn *function, stint_on_interrupt way)
{
    stint::Pool pool(stint::PoolOptions().workers(1).stack_size(1 << 20));
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    stint_future *future = nullptr;
    options.on_interrupt = way;
    alive = 0;
    assert_int_equal(stint_submit(pool.handle(), function, nullptr, &options, &future), 0);
    assert_int_equal(stint_future_wait(future, &outcome), 0);
    stint_future_release(future);
    assert_int_equal(outcome.status, STINT_ERROR);
    assert_int_equal(outcome.reason, STINT_REASON_STACK);
    return outcome;
}

} // namespace

TEST(destructors_run_of_a_recursion_that_allocates)
{
    for (int i = 0; i < 3; i++) {
        run_bomb(run_function<recurse_and_allocate>, STINT_UNWIND);
        assert_int_equal(alive, 0);
        run_bomb(run_function<recurse_widely>, STINT_UNWIND);
        assert_int_equal(alive, 0);
    }
}

TEST(also_where_most_of_its_allocations_may_not_be_left_at)
{
    for (int i = 0; i < 3; i++) {
        run_bomb(run_function<recurse_with_text>, STINT_UNWIND);
        assert_int_equal(alive, 0);
        run_bomb(run_function<recurse_with_text>, STINT_JUMP);
    }
}

TEST(one_that_does_not_is_left)
{
    for (int i = 0; i < 10; i++) {
        run_bomb(run_function<recurse>, STINT_UNWIND);
        run_bomb(run_function<recurse>, STINT_JUMP);
        run_bomb(run_function<recurse_and_allocate>, STINT_JUMP);
    }
}

TEST(and_one_that_lets_no_exception_through)
{
    for (int i = 0; i < 3; i++) {
        run_bomb(run_function<recurse_noexcept>, STINT_UNWIND);
        run_bomb(run_function<recurse_noexcept>, STINT_JUMP);
    }
}

TEST_MAIN()
