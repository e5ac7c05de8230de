/* SPDX-License-Identifier: MIT
 *
 * Sleeping until something happens: the kernel's half of it, a moment's rest instead, and the event count made of both.
 * Any thread. */
#ifndef STI_EXECUTOR_BASE_EVENT_H
#define STI_EXECUTOR_BASE_EVENT_H

#include <ck_ec.h>
#include <ck_pr.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "alloc/platform/clock.h"

/* --- A mutex that is held for a few dozen instructions at a time: who finds it locked spins for a moment before it
 * sleeps. Two workers that each sleep and are woken for it take twice as long as one of them alone. --- */
void sti_mutex_init_brief(pthread_mutex_t *mutex);

/* --- The kernel's half of sleeping: wait while a word of memory has a value, wake all who do. A wait may end for no
 * reason: the caller looks again. Any thread. */

/* deadline: absolute, of CLOCK_MONOTONIC; NULL: none. */
static inline void sti_futex_wait(const void *word, unsigned value, const struct timespec *deadline)
{
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value, deadline, NULL, FUTEX_BITSET_MATCH_ANY);
}

static inline void sti_futex_wake_all(const void *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX);
}

/* --- A moment's rest, for a thread that expects what it waits for at any moment and would lose more by sleeping. Any
 * thread. Every second rest gives the processor up: on a busy machine, what the thread waits for may be the work of
 * another that has to run on the same one. Resting without that made a round trip of submit and wait there six times as
 * long. */

#define STI_REST_STALLS 8

static inline void sti_rest(unsigned round)
{
    if (round % 2 == 1) {
        sched_yield();
        return;
    }
    for (int i = 0; i < STI_REST_STALLS; i++)
        ck_pr_stall();
}

/* --- Sleeping until something happens: Concurrency Kit's event count on Linux futexes. An event carries no data. A
 * waiter reads the event's value, looks whether what it waits for has happened (an atomic of its own), and if not waits
 * for the value to change; the thread that makes it happen stores that atomic and then signals. Nobody sleeping: no
 * system call.
 *
 * Any thread. The event must outlive the calls on it. */

#define STI_NEVER UINT64_MAX

/* The deadline so many nanoseconds from now; never, if that is too far away to be told. */
static inline uint64_t sti_deadline_after(uint64_t timeout_ns)
{
    uint64_t deadline;
    return __builtin_add_overflow(sti_clock_now(), timeout_ns, &deadline) ? STI_NEVER : deadline;
}

typedef struct ck_ec32 sti_event;

void sti_event_init(sti_event *event);

/* Acquire. */
uint32_t sti_event_value(const sti_event *event);

/* Change the value, after all that was stored before, and wake all who wait. */
void sti_event_signal(sti_event *event);

/* Wait until the value differs from this one: true; or until the deadline by sti_clock_now (STI_NEVER: none): false. */
bool sti_event_wait(sti_event *event, uint32_t value, uint64_t deadline_ns);

/* What a waiter does: sleep until it has come, of which the event is signalled: 0; or until the deadline: ETIMEDOUT.
 * EINTR: an interrupt of the calling task has come, for which it is woken (NULL: it does not listen). */
struct sti_waking;
int sti_event_await(sti_event *event, bool (*has_come)(const void *arg), const void *arg,
                    const struct sti_waking *waking, uint64_t deadline_ns);

/* For sti_waking_begin: signal the event. */
void sti_event_wake(void *event);

#endif
