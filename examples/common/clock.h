/* SPDX-License-Identifier: MIT
 *
 * The clocks that all times of the programs are read from: no change of the day's time moves it. Any thread. */
#ifndef COMMON_CLOCK_H
#define COMMON_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_of(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

/* Nanoseconds of CLOCK_MONOTONIC. */
static inline uint64_t clock_now(void)
{
    return clock_of(CLOCK_MONOTONIC);
}

/* Nanoseconds of processor time that the calling thread has had. */
static inline uint64_t clock_of_thread(void)
{
    return clock_of(CLOCK_THREAD_CPUTIME_ID);
}

#endif
