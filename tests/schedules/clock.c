/* SPDX-License-Identifier: MIT
 *
 * The time of day jumps, by up to ten years forth and back, each time that it is read, as where an administrator or a
 * daemon sets it. Other clocks are as they are. To be preloaded; any thread.
 *
 * STINT_SCHEDULES_SEED: without it nothing happens. STINT_SCHEDULES_TELL: how often is told at the end. */
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define TEN_YEARS (UINT64_C(10) * 366 * 24 * 3600)
#define EXPORT __attribute__((visibility("default")))

static _Atomic uint64_t state; /* 0: it does not jump */
static atomic_ulong jumps;

static time_t jump(void)
{
    if (atomic_load_explicit(&state, memory_order_relaxed) == 0)
        return 0;
    uint64_t drawn = atomic_fetch_add_explicit(&state, UINT64_C(0x9e3779b97f4a7c15), memory_order_relaxed);
    drawn = (drawn ^ (drawn >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    drawn = (drawn ^ (drawn >> 27)) * UINT64_C(0x94d049bb133111eb);
    atomic_fetch_add_explicit(&jumps, 1, memory_order_relaxed);
    return (time_t)((drawn >> 8) % (2 * TEN_YEARS)) - (time_t)TEN_YEARS;
}

/* A system call: without a table of the libraries' functions that might not be there yet. */
EXPORT int clock_gettime(clockid_t clock, struct timespec *now)
{
    long result = syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI))
        now->tv_sec += jump();
    return (int)result;
}

EXPORT int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    long result = syscall(SYS_gettimeofday, now, zone);
    if (result == 0)
        now->tv_sec += jump();
    return (int)result;
}

EXPORT int timespec_get(struct timespec *now, int base)
{
    return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, now) == 0 ? base : 0;
}

EXPORT time_t time(time_t *where)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (where != NULL)
        *where = now.tv_sec;
    return now.tv_sec;
}

__attribute__((constructor)) static void start(void)
{
    const char *seed = getenv("STINT_SCHEDULES_SEED");
    if (seed != NULL)
        atomic_store(&state, strtoull(seed, NULL, 0) + 1);
}

__attribute__((destructor)) static void tell(void)
{
    if (atomic_load(&jumps) > 0 && getenv("STINT_SCHEDULES_TELL") != NULL)
        fprintf(stderr, "schedules: the time of day jumped %lu times\n", atomic_load(&jumps));
}
