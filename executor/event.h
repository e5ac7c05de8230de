/* SPDX-License-Identifier: MIT
 *
 * Sleeping until something happens: Concurrency Kit's event count on Linux futexes. An event carries no data. A waiter
 * reads the event's value, looks whether what it waits for has happened (an atomic of its own), and if not waits for
 * the value to change; who makes it happen stores that atomic and then signals. Nobody sleeping: no system call.
 *
 * Any thread. The event must outlive the calls on it. */
#ifndef STI_EXECUTOR_EVENT_H
#define STI_EXECUTOR_EVENT_H

#include <ck_ec.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "alloc/clock.h"

#define STI_NEVER UINT64_MAX

/* The deadline so many nanoseconds from now; never, if that is too far away to be told. */
static inline uint64_t sti_deadline_after(uint64_t timeout_ns)
{
    uint64_t deadline;
    return __builtin_add_overflow(sti_clock_now(), timeout_ns, &deadline) ? STI_NEVER : deadline;
}

static inline struct timespec sti_deadline_time(uint64_t deadline_ns)
{
    return (struct timespec){ .tv_sec = (time_t)(deadline_ns / UINT64_C(1000000000)),
                              .tv_nsec = (long)(deadline_ns % UINT64_C(1000000000)) };
}

typedef struct ck_ec32 sti_event;

void sti_event_init(sti_event *event);

/* Acquire. */
uint32_t sti_event_value(const sti_event *event);

/* Release: change the value and wake all who wait. */
void sti_event_signal(sti_event *event);

/* Wait until the value differs from this one: true; or until the deadline by sti_clock_now (STI_NEVER: none): false. */
bool sti_event_wait(sti_event *event, uint32_t value, uint64_t deadline_ns);

#endif
