/* SPDX-License-Identifier: MIT
 *
 * The clocks: nanoseconds of CLOCK_MONOTONIC, exact or cheap. Any thread. */
#ifndef STI_ALLOC_CLOCK_H
#define STI_ALLOC_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t sti_clock_read(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* 20 ns on the machine it was measured on. */
static inline uint64_t sti_clock_now(void)
{
    return sti_clock_read(CLOCK_MONOTONIC);
}

/* 2.5 ns; up to one kernel tick (1 to 10 ms) behind sti_clock_now, never ahead of it. */
static inline uint64_t sti_clock_coarse(void)
{
    return sti_clock_read(CLOCK_MONOTONIC_COARSE);
}

/* Of the processor time of a thread of this process, by the kernel's id; as pthread_getcpuclockid makes it. */
static inline clockid_t sti_clock_of_thread(int id)
{
    return (~(clockid_t)id << 3) | 6;
}

#endif
