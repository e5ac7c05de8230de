/* SPDX-License-Identifier: MIT
 *
 * Timers: a hierarchical wheel (Varghese and Lauck 1987). To put one in and to take it out again costs a few dozen
 * instructions, however many there are; both happen to every task that waits with a deadline, and hardly one expires.
 * The caller locks.
 *
 * Time is counted in ticks of about a millisecond. Of a tick's number each 6 bits are a digit, and each digit is a
 * level with 64 slots. A timer lies on the level of the highest digit in which its tick differs from the present one,
 * in the slot of its own digit there; so what is on a level comes before all that is on the levels above. When the
 * present reaches a slot, its timers go to lower levels, or have expired. */
#ifndef STI_EXECUTOR_BASE_TIMERS_H
#define STI_EXECUTOR_BASE_TIMERS_H

#include <stddef.h>
#include <stdint.h>

#define STI_TIMER_LEVELS 8
#define STI_TIMER_SLOTS 64
#define STI_TIMERS_NONE UINT64_MAX

struct sti_timer {
    struct sti_timer *next;
    struct sti_timer **link; /* NULL: it is not in */
    uint64_t tick;           /* at whose beginning its deadline has passed */
    unsigned char level, slot;
    unsigned char kind; /* for its owner */
};

struct sti_timers {
    uint64_t tick;                   /* the present */
    size_t count;                    /* of those that are in, and of those that have expired */
    uint64_t used[STI_TIMER_LEVELS]; /* slots with something in, a bit each */
    struct sti_timer *slots[STI_TIMER_LEVELS][STI_TIMER_SLOTS];
    struct sti_timer *expired; /* and not been taken yet, the earliest first */
    struct sti_timer **expired_end;
};

/* All times by sti_clock_now. */
void sti_timers_init(struct sti_timers *timers, uint64_t now);

/* A timer that is not in. Returns when somebody has to look, if that is earlier than without it; otherwise
 * STI_TIMERS_NONE. */
uint64_t sti_timers_add(struct sti_timers *timers, struct sti_timer *timer, uint64_t deadline);

/* Also one that has expired and has not been taken. Nothing if it is not in. */
void sti_timers_remove(struct sti_timers *timers, struct sti_timer *timer);

/* Let time go on to now: those whose deadline has passed, up to a tick ago, expire. */
void sti_timers_expire(struct sti_timers *timers, uint64_t now);

/* Take the first that has expired. NULL: there is none. */
struct sti_timer *sti_timers_take(struct sti_timers *timers);

/* When to look next for more; STI_TIMERS_NONE. */
uint64_t sti_timers_next(const struct sti_timers *timers);

#endif
