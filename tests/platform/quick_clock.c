/* SPDX-License-Identifier: MIT
 *
 * The quick clock tells the system's time, from its first reading on and whatever happens to the machine. */
#include "support.h"

#include "alloc/platform/clock.h"

#define US UINT64_C(1000)

/* Its time lies between two readings of the system's clock, within its error of microseconds. */
static void assert_right(struct sti_quick_clock *clock)
{
    uint64_t before = sti_clock_now();
    uint64_t now = sti_quick_clock_now(clock);
    uint64_t after = sti_clock_now();
    assert_in_range(now, before - 10 * US, after + 10 * US);
}

static void watch_for(struct sti_quick_clock *clock, uint64_t ns)
{
    for (uint64_t end = sti_clock_now() + ns; sti_clock_now() < end;)
        assert_right(clock);
}

/* On a busy machine that takes as long as it takes. */
static void watch_until_the_rate_is_known(struct sti_quick_clock *clock)
{
#if STI_TICKS
    while (clock->rate == 0)
#endif
        assert_right(clock);
}

TEST(it_shows_the_time_of_the_system)
{
    struct sti_quick_clock clock = { 0 };
    watch_until_the_rate_is_known(&clock);
    watch_for(&clock, 50 * MS);
    const struct timespec a_while = { 0, 30 * 1000 * 1000 };
    nanosleep(&a_while, NULL);
    watch_for(&clock, 5 * MS);
}

#if STI_TICKS

TEST(it_learns_anew_when_the_counter_has_jumped)
{
    static const uint64_t jumps[] = { 10 * MS, 0 - 10 * MS, 1000000 * MS, 0 - 1000000 * MS, UINT64_MAX / 2 };
    for (unsigned i = 0; i < sizeof jumps / sizeof jumps[0]; i++) {
        struct sti_quick_clock clock = { 0 };
        watch_until_the_rate_is_known(&clock);
        clock.ticks += jumps[i];
        const struct timespec a_while = { 0, 2 * 1000 * 1000 };
        nanosleep(&a_while, NULL);
        while (clock.rate != 0)
            sti_quick_clock_now(&clock); /* wrong for a millisecond at most */
        watch_until_the_rate_is_known(&clock);
        watch_for(&clock, 5 * MS);
    }
}

TEST(it_learns_anew_when_the_rate_was_wrong)
{
    struct sti_quick_clock clock = { 0 };
    watch_until_the_rate_is_known(&clock);
    uint64_t rate = clock.rate;
    clock.rate = rate / 2;
    const struct timespec a_while = { 0, 20 * 1000 * 1000 };
    nanosleep(&a_while, NULL);
    while (clock.rate == rate / 2)
        sti_quick_clock_now(&clock);
    watch_until_the_rate_is_known(&clock);
    watch_for(&clock, 5 * MS);
    assert_in_range(clock.rate, rate - rate / 1000, rate + rate / 1000);
}

#endif

TEST_MAIN()
