/* SPDX-License-Identifier: MIT
 *
 * The time. Any thread; the quick clock is its thread's own. */
#ifndef STI_ALLOC_PLATFORM_CLOCK_H
#define STI_ALLOC_PLATFORM_CLOCK_H

#include <stdint.h>
#include <time.h>

#include "machine.h"

/* --- The clocks: nanoseconds of CLOCK_MONOTONIC, exact or cheap. Any thread. --- */

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
    return (clockid_t)(~(unsigned)id << 3 | 6);
}

/* --- The time as sti_clock_now tells it, for half its price. A reading of the system's clock is 20 ns, of the
 * processor's counter 10; and an empty task reads the clock twice. So within a millisecond of a reading of the system's
 * clock the counter tells how long ago that was; then the system's is read again. Its thread only.
 *
 * How fast the counter runs each thread finds out by itself, in its first 10 milliseconds with a task, and checks
 * whenever it reads the system's clock: where the two disagree by more than a thousandth (the machine slept, or was
 * moved to another) it finds out anew. The error is below a microsecond: the counter's rate is known to 1 in 10,000,
 * and is not read in order with what is around it. Where there is no such counter (STI_TICKS) the
 * system's clock is read. */

/* Zeros at first. */
struct sti_quick_clock {
    uint64_t ticks;   /* of the counter at the last reading of the system's clock, */
    uint64_t ns;      /* and what that showed */
    uint64_t trusted; /* ticks for which the counter may stand in; 0: not at all */
    uint64_t rate;    /* nanoseconds a tick, times 2 to the power of 32; 0: not known */
    uint64_t first_ticks;
    uint64_t first_ns; /* of a reading from which the rate is found; 0: there is none */
};

#if STI_TICKS

uint64_t sti_quick_clock_correct(struct sti_quick_clock *clock);

static inline uint64_t sti_quick_clock_now(struct sti_quick_clock *clock)
{
    uint64_t ticks = sti_ticks() - clock->ticks;
    if (__builtin_expect(ticks >= clock->trusted, 0))
        return sti_quick_clock_correct(clock);
    return clock->ns + (ticks * clock->rate >> 32);
}

#else

static inline uint64_t sti_quick_clock_now(struct sti_quick_clock *clock)
{
    (void)clock;
    return sti_clock_now();
}

#endif

/* --- How long the calling thread has had a processor. To read that is a system call which takes a lock of the
 * scheduler's, 0.6 microseconds where an empty one takes 0.2; so for a millisecond after a reading the time that has
 * passed stands in for it: more than that the thread cannot have had. Its thread, and handlers of signals there. */

/* Zeros at first. */
struct sti_processor_clock {
    uint64_t used;     /* by the last reading, */
    uint64_t at;       /* which was made then, by sti_clock_now */
    uint64_t returned; /* the largest one that was told: it never goes back */
};

#define STI_PROCESSOR_CLOCK_TRUSTED_NS UINT64_C(1000000)

/* No less than it is, nor a millisecond more. */
static inline uint64_t sti_processor_clock_about(struct sti_processor_clock *clock, uint64_t now)
{
    if (now - clock->at >= STI_PROCESSOR_CLOCK_TRUSTED_NS) {
        clock->at = now;
        clock->used = sti_clock_read(CLOCK_THREAD_CPUTIME_ID);
    }
    uint64_t used = clock->used + (now - clock->at);
    if (used > clock->returned)
        clock->returned = used;
    return clock->returned;
}

#endif
