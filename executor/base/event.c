/* SPDX-License-Identifier: MIT
 *
 * The event count's operations and the futex calls behind them; see event.h.
 *
 * The event count is used in its multiple-producer mode: an increment is a locked instruction and cannot lose the flag
 * that a sleeper sets. Its sleeping loop nevertheless wakes up now and then in the first second, which only the
 * single-producer mode needs. So the futex wait below does not look at the deadline of that loop but at the caller's
 * own, which it gets as the wait's data: a sleeper sleeps until it is woken, and an idle pool uses no CPU. */
#include "event.h"

#include <errno.h>

#include "alloc/interrupt/hook.h"
#include "alloc/platform/libc.h"

void sti_mutex_init_brief(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(mutex, &kind);
    pthread_mutexattr_destroy(&kind);
}

static int read_clock(const struct ck_ec_ops *ops, struct timespec *now)
{
    (void)ops;
    return clock_gettime(CLOCK_MONOTONIC, now);
}

/* It may return early for any reason: the event count looks again. */
static void wait_on_futex(const struct ck_ec_wait_state *state, const uint32_t *address, uint32_t expected,
                          const struct timespec *backoff)
{
    (void)backoff;
    const struct timespec *deadline = state->data;
    sti_futex_wait(address, expected, deadline);
}

static void wake_futex(const struct ck_ec_ops *ops, const uint32_t *address)
{
    (void)ops;
    sti_futex_wake_all(address);
}

/* Callers that expect not to wait long have rested already (event.h): no busy loop of the event count's own. */
static const struct ck_ec_ops ops = {
    .gettime = read_clock,
    .wait32 = wait_on_futex,
    .wake32 = wake_futex,
    .busy_loop_iter = 1,
};
static const struct ck_ec_mode mode = { .ops = &ops, .single_producer = false };

void sti_event_init(sti_event *event)
{
    ck_ec32_init(event, 0);
}

uint32_t sti_event_value(const sti_event *event)
{
    return ck_ec32_value(event);
}

void sti_event_signal(sti_event *event)
{
    ck_ec32_inc(event, &mode);
}

bool sti_event_wait(sti_event *event, uint32_t value, uint64_t deadline_ns)
{
    if (deadline_ns == STI_NEVER)
        return ck_ec32_wait_pred(event, &mode, value, NULL, NULL, NULL) == 0;
    struct timespec deadline = { .tv_sec = (time_t)(deadline_ns / UINT64_C(1000000000)),
                                 .tv_nsec = (long)(deadline_ns % UINT64_C(1000000000)) };
    return ck_ec32_wait_pred(event, &mode, value, NULL, &deadline, &deadline) == 0;
}

int sti_event_await(sti_event *event, bool (*has_come)(const void *arg), const void *arg,
                    const struct sti_waking *waking, uint64_t deadline_ns)
{
    for (;;) {
        uint32_t value = sti_event_value(event);
        if (has_come(arg))
            return 0;
        if (waking != NULL && sti_waking_has_come(waking))
            return EINTR;
        if (!sti_event_wait(event, value, deadline_ns))
            return has_come(arg) ? 0 : ETIMEDOUT;
    }
}

void sti_event_wake(void *event)
{
    sti_event_signal(event);
}
