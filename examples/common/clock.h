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

/* So many milliseconds from now on, for pthread_cond_clockwait with CLOCK_MONOTONIC. */
static inline struct timespec clock_after_ms(uint64_t milliseconds)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    uint64_t nanoseconds = (uint64_t)time.tv_nsec + milliseconds % 1000 * 1000000;
    time.tv_sec += (time_t)(milliseconds / 1000 + nanoseconds / 1000000000);
    time.tv_nsec = (long)(nanoseconds % 1000000000);
    return time;
}

/* Nanoseconds of processor time that the calling thread has had. */
static inline uint64_t clock_of_thread(void)
{
    return clock_of(CLOCK_THREAD_CPUTIME_ID);
}

#endif
