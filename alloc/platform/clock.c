/* SPDX-License-Identifier: MIT
 *
 * Reading the system's clock for the quick one; see clock.h. Its thread only. */
#include "clock.h"

#include <stdbool.h>

#if STI_TICKS

#define TRUSTED_NS 1000000
#define LEARNING_NS 10000000
#define TOLERANCE_SHIFT 10
#define TOLERANCE_NS 2000

static void begin_to_learn(struct sti_quick_clock *clock)
{
    clock->rate = 0;
    clock->trusted = 0;
    clock->first_ticks = clock->ticks;
    clock->first_ns = clock->ns;
}

static void clock_learn(struct sti_quick_clock *clock)
{
    uint64_t ticks = clock->ticks - clock->first_ticks;
    uint64_t ns = clock->ns - clock->first_ns;
    if (ns < LEARNING_NS || ticks <= ns / 256 || ticks / 16 >= ns)
        return;
    double ns_per_tick = (double)ns / (double)ticks;
    clock->rate = (uint64_t)(ns_per_tick * 4294967296.0);
    clock->trusted = (uint64_t)(TRUSTED_NS / ns_per_tick);
}

static bool clocks_disagree(const struct sti_quick_clock *clock, uint64_t ticks, uint64_t ns)
{
    double by_counter = (double)(ticks - clock->ticks) * (double)clock->rate / 4294967296.0;
    double passed = (double)(ns - clock->ns);
    double difference = by_counter > passed ? by_counter - passed : passed - by_counter;
    return difference > passed / (1 << TOLERANCE_SHIFT) + TOLERANCE_NS;
}

uint64_t sti_quick_clock_correct(struct sti_quick_clock *clock)
{
    uint64_t before = sti_ticks();
    uint64_t ns = sti_clock_now();
    uint64_t after = sti_ticks();
    if (after - before > sti_ticks_of_reading()) /* the thread has been interrupted */
        return ns;
    bool anew = clock->first_ns == 0 || (clock->rate != 0 && clocks_disagree(clock, before, ns));
    clock->ticks = before;
    clock->ns = ns;
    if (anew)
        begin_to_learn(clock);
    else if (clock->rate == 0)
        clock_learn(clock);
    return ns;
}

#endif
