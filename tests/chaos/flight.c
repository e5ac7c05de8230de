/* SPDX-License-Identifier: MIT
 *
 * Flights; see flight.h. */
#include "flight.h"

#include <alloca.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "watch.h"

#define LONGEST_SLEEP_NS 50000
#define SHORTEST_FLIGHT_NS 10000
#define LONGEST_FLIGHT_NS UINT64_C(1000000000)
#define LEAST_STACK 512
#define MOST_STACK 16384
#define YELLOW 65536 /* bytes at the end of a stack, for code that cannot be stopped at once */

_Thread_local const struct chaos_flight *chaos_flight_current;

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

/* --- The interrupter ---------------------------------------------------------------------------------------------- */

static struct {
    struct chaos_flight *flights;
    size_t count;
    pthread_t thread;
    atomic_bool ending;
} interrupter;

static void fire(struct chaos_flight *flight)
{
    if (flight->plan.reason == CHAOS_CANCEL)
        stint_future_cancel(flight->future);
    else
        stint_token_set(flight->token);
}

/* Stop it if its time has come; otherwise how long that will take. */
static uint64_t look_after(struct chaos_flight *flight, uint64_t now)
{
    enum chaos_trigger trigger = CHAOS_ARMED;
    if (atomic_load_explicit(&flight->trigger, memory_order_acquire) != CHAOS_ARMED)
        return LONGEST_SLEEP_NS;
    uint64_t started = atomic_load_explicit(&flight->started_ns, memory_order_relaxed);
    if (started == 0)
        return LONGEST_SLEEP_NS;
    if (now < started + flight->delay_ns)
        return started + flight->delay_ns - now;
    /* acquire: another task may be on its way in the same flight by now; release: main may reuse it. */
    if (atomic_compare_exchange_strong_explicit(&flight->trigger, &trigger, CHAOS_FIRING, memory_order_acquire,
                                                memory_order_relaxed)) {
        fire(flight);
        atomic_store_explicit(&flight->trigger, CHAOS_FIRED, memory_order_release);
    }
    return LONGEST_SLEEP_NS;
}

static void *interrupt_flights(void *unused)
{
    (void)unused;
    prctl(PR_SET_TIMERSLACK, 1UL);
    while (!atomic_load_explicit(&interrupter.ending, memory_order_relaxed)) {
        uint64_t pause = LONGEST_SLEEP_NS;
        for (size_t i = 0; i < interrupter.count; i++) {
            uint64_t due = look_after(&interrupter.flights[i], now_ns());
            if (due < pause)
                pause = due;
        }
        struct timespec time = { .tv_nsec = (long)pause };
        nanosleep(&time, NULL);
    }
    return NULL;
}

int chaos_interrupter_start(struct chaos_flight *flights, size_t count)
{
    interrupter.flights = flights;
    interrupter.count = count;
    return pthread_create(&interrupter.thread, NULL, interrupt_flights, NULL);
}

void chaos_interrupter_stop(void)
{
    atomic_store_explicit(&interrupter.ending, true, memory_order_relaxed);
    pthread_join(interrupter.thread, NULL);
}

/* --- In the task -------------------------------------------------------------------------------------------------- */

static bool is_timed(const struct chaos_flight *flight)
{
    return flight->plan.reason != CHAOS_NONE && chaos_reasons[flight->plan.reason].longest_ns != 0;
}

static _Thread_local uintptr_t stack_end;

void chaos_flight_begin_worker(void *unused, unsigned index)
{
    pthread_attr_t attributes;
    void *lowest = NULL;
    size_t size;
    (void)unused;
    (void)index;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0)
        return;
    pthread_attr_getstack(&attributes, &lowest, &size);
    pthread_attr_destroy(&attributes);
    stack_end = (uintptr_t)lowest + YELLOW;
}

/* With so much of the stack left. */
static __attribute__((noinline)) int run_near_end(const struct chaos_flight *flight, uint64_t *sum)
{
    /* Most libraries need little: so more tasks begin near the end than far from it. */
    size_t left = LEAST_STACK + (size_t)(flight->plan.point * flight->plan.point * MOST_STACK);
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    void *skipped = alloca(here - stack_end - left);
    __asm__ volatile("" : : "r"(skipped) : "memory");
    return flight->plan.library->run(flight->plan.variant, sum);
}

static int run_library(const struct chaos_flight *flight, uint64_t *sum)
{
    return flight->plan.reason == CHAOS_STACK ? run_near_end(flight, sum)
                                              : flight->plan.library->run(flight->plan.variant, sum);
}

/* Work that is slow to stop is repeated until it is stopped. */
static int work(struct chaos_flight *flight)
{
    uint64_t started = now_ns();
    do {
        uint64_t sum = CHAOS_SUM_BEGIN;
        int error = run_library(flight, &sum);
        if (stint_is_interrupted())
            return error != 0 ? error : ECANCELED;
        if (error != 0)
            flight->complaint = "the library failed, though nothing had been refused";
        else if (sum != flight->clean.sum)
            flight->complaint = "wrong answer";
        if (flight->complaint != NULL)
            return EBADMSG;
        flight->runs++;
        stint_checkpoint();
        if (stint_is_interrupted())
            return ECANCELED;
    } while (is_timed(flight) && now_ns() - started < LONGEST_FLIGHT_NS);
    flight->finished = true;
    return 0;
}

static void set_limits(const struct chaos_flight *flight, stint_options *options)
{
    const struct chaos_plan *plan = &flight->plan;
    switch (plan->reason) {
    case CHAOS_ALLOCATION:
        options->budget.allocation = 1 + (size_t)(plan->point * (double)flight->clean.allocated);
        break;
    case CHAOS_MEMORY:
        options->budget.memory = 1 + (size_t)(plan->point * (double)flight->clean.peak);
        break;
    case CHAOS_DEADLINE:
    case CHAOS_PREEMPTION:
        options->budget.wall_ns = 1 + flight->delay_ns;
        break;
    case CHAOS_TOKEN:
        options->token = flight->token;
        break;
    case CHAOS_CANCEL:
    case CHAOS_STACK:
    case CHAOS_NONE:
        break;
    }
}

/* A third of the tasks have no report, a third a report of the place, a third one of the memory too. */
static stint_report_level report_level(const struct chaos_flight *flight)
{
    return (stint_report_level)(flight->plan.seed % (STINT_REPORT_HEAP + 1));
}

static stint_options options_of(const struct chaos_flight *flight, unsigned scope)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.on_interrupt = flight->plan.mode;
    options.name = flight->plan.library->name;
    options.preemptible = flight->plan.reason != CHAOS_NONE && chaos_reasons[flight->plan.reason].preempting;
    options.report = report_level(flight);
    if (scope == flight->plan.limited)
        set_limits(flight, &options);
    return options;
}

/* From scope to scope inwards, then the work. */
static int enter(void *argument, void **value)
{
    (void)value;
    struct chaos_flight *flight = argument;
    if (flight->entered == flight->plan.scopes) {
        chaos_flight_current = flight;
        atomic_store_explicit(&flight->started_ns, now_ns(), memory_order_relaxed);
        return work(flight);
    }
    unsigned scope = ++flight->entered;
    stint_options options = options_of(flight, scope);
    stint_outcome outcome;
    stint_report *report;
    int error = stint_run_reported(enter, flight, &options, &outcome, &report);
    if (error != 0)
        return error;
    if (report != NULL && outcome.status == STINT_OK)
        flight->complaint = "a report of a scope that ended Ok";
    stint_report_release(report);
    if (scope == flight->plan.limited) {
        flight->limited = outcome;
        return 0;
    }
    return outcome.error;
}

/* --- By main ------------------------------------------------------------------------------------------------------ */

/* Twice the time of the work, which is repeated until it is stopped: a delay beyond that only costs time. A deadline is
 * compared with a clock that may tick every 4 ms. */
static uint64_t longest_delay(const struct chaos_flight *flight)
{
    uint64_t longest = chaos_reasons[flight->plan.reason].longest_ns;
    uint64_t twice = 2 * flight->clean.ns + SHORTEST_FLIGHT_NS;
    return flight->plan.reason != CHAOS_DEADLINE && twice < longest ? twice : longest;
}

int chaos_flight_launch(struct chaos_flight *flight, stint_pool *pool)
{
    flight->token = NULL;
    flight->delay_ns = 0;
    flight->entered = 0;
    flight->runs = 0;
    flight->limited = (stint_outcome){ 0 };
    flight->finished = false;
    flight->complaint = NULL;
    atomic_store_explicit(&flight->started_ns, 0, memory_order_relaxed);
    chaos_plan_print(&flight->plan, flight->repeat);
    if (is_timed(flight))
        flight->delay_ns = (uint64_t)(flight->plan.point * (double)longest_delay(flight));
    int error = flight->plan.reason == CHAOS_TOKEN ? stint_token_create(NULL, &flight->token) : 0;
    if (error != 0)
        return error;
    stint_options options = options_of(flight, 0);
    error = stint_submit(pool, enter, flight, &options, &flight->future);
    if (error == 0 && (flight->plan.reason == CHAOS_TOKEN || flight->plan.reason == CHAOS_CANCEL))
        atomic_store_explicit(&flight->trigger, CHAOS_ARMED, memory_order_release);
    return error;
}

static void disarm(struct chaos_flight *flight)
{
    enum chaos_trigger trigger = CHAOS_ARMED;
    if (!atomic_compare_exchange_strong_explicit(&flight->trigger, &trigger, CHAOS_DISARMED, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        while (trigger == CHAOS_FIRING) {
            sched_yield();
            trigger = atomic_load_explicit(&flight->trigger, memory_order_acquire);
        }
    }
}

static const char *judge(const struct chaos_flight *flight, const stint_outcome *task, const stint_outcome *outcome)
{
    if (flight->complaint != NULL)
        return flight->complaint;
    if (flight->plan.limited > 0 && task->status != STINT_OK)
        return "a scope inside was stopped, and the task did not go on";
    if (outcome->status == STINT_OK)
        return flight->finished ? NULL : "Ok, though the work had not come to its end";
    if (flight->plan.reason == CHAOS_NONE)
        return "a clean run was stopped";
    const struct chaos_reason_traits *wanted = &chaos_reasons[flight->plan.reason];
    /* A deadline may pass before the task has begun: then it says so. */
    bool expired = wanted->outcome == STINT_REASON_DEADLINE && outcome->reason == STINT_REASON_EXPIRED;
    if ((outcome->reason != wanted->outcome && !expired) || outcome->status != wanted->status)
        return "stopped for another reason";
    return NULL;
}

#define REPORTS_WRITTEN 100 /* one of so many */

uint64_t chaos_flight_reports;

/* Judges the report of the task itself. Writing one is slow, and needs a part of the library that some builds lack. */
static const char *judge_report(const struct chaos_flight *flight, const stint_outcome *task)
{
    stint_report *report;
    bool began = flight->entered > 0 || atomic_load_explicit(&flight->started_ns, memory_order_relaxed) != 0;
    bool expected = began && task->status != STINT_OK && report_level(flight) != STINT_REPORT_NONE;
    int error = stint_future_report(flight->future, &report);
    if (error != (expected ? 0 : ENODATA))
        return expected ? "stopped, and there is no report" : "a report that nobody can have made";
    if (error != 0)
        return NULL;
    if (chaos_flight_reports++ % REPORTS_WRITTEN == 0) {
        int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        error = stint_report_write(report, nowhere, STINT_REPORT_JSON);
        close(nowhere);
    }
    stint_report_release(report);
    return error == 0 || error == ENOTSUP ? NULL : "a report that cannot be written";
}

const char *chaos_flight_land(struct chaos_flight *flight, stint_outcome *outcome)
{
    stint_outcome task;
    stint_future_wait(flight->future, &task);
    disarm(flight);
    const char *complaint = judge_report(flight, &task);
    stint_future_release(flight->future);
    flight->future = NULL;
    stint_token_release(flight->token);
    *outcome = flight->plan.limited > 0 ? flight->limited : task;
    return complaint != NULL ? complaint : judge(flight, &task, outcome);
}
