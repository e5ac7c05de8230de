/* SPDX-License-Identifier: MIT
 *
 * Flights; see flight.h. */
#include "flight.h"

#include <inttypes.h>

#include "../../support.h"

/* --- The canceller ------------------------------------------------------------------------------------------------ */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    struct flight *flights;
    size_t count;
    bool ending;
} canceller = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct flight *next_due(void)
{
    struct flight *next = NULL;
    for (size_t i = 0; i < canceller.count; i++) {
        struct flight *flight = &canceller.flights[i];
        if (flight->due_ns != 0 && (next == NULL || flight->due_ns < next->due_ns))
            next = flight;
    }
    return next;
}

static void *cancel_when_due(void *unused)
{
    pthread_mutex_lock(&canceller.lock);
    while (!canceller.ending) {
        struct flight *next = next_due();
        if (next == NULL) {
            pthread_cond_wait(&canceller.changed, &canceller.lock);
        } else if (now_ns() < next->due_ns) {
            const struct timespec due = { .tv_sec = (time_t)(next->due_ns / UINT64_C(1000000000)),
                                          .tv_nsec = (long)(next->due_ns % UINT64_C(1000000000)) };
            pthread_cond_timedwait(&canceller.changed, &canceller.lock, &due);
        } else {
            next->due_ns = 0;
            stint_future_cancel(next->future);
        }
    }
    pthread_mutex_unlock(&canceller.lock);
    return unused;
}

static void set_due(struct flight *flight, uint64_t due_ns)
{
    pthread_mutex_lock(&canceller.lock);
    flight->due_ns = due_ns;
    pthread_cond_signal(&canceller.changed);
    pthread_mutex_unlock(&canceller.lock);
}

int canceller_start(struct flight *flights, size_t count)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&canceller.changed, &attributes);
    pthread_condattr_destroy(&attributes);
    canceller.flights = flights;
    canceller.count = count;
    canceller.ending = false;
    return pthread_create(&canceller.thread, NULL, cancel_when_due, NULL);
}

void canceller_stop(void)
{
    pthread_mutex_lock(&canceller.lock);
    canceller.ending = true;
    pthread_cond_signal(&canceller.changed);
    pthread_mutex_unlock(&canceller.lock);
    pthread_join(canceller.thread, NULL);
    pthread_cond_destroy(&canceller.changed);
}

/* --- In the child ------------------------------------------------------------------------------------------------- */

static int run_library(const void *input, size_t size, stint_reply *reply)
{
    struct flight_input wanted;
    uint64_t sum = SUM_BEGIN;
    if (size != sizeof wanted)
        return EINVAL;
    memcpy(&wanted, input, size);
    int error = wanted.library->work(wanted.seed, &sum);
    return error != 0 ? error : stint_reply_write(reply, &sum, sizeof sum);
}

/* --- By main ------------------------------------------------------------------------------------------------------ */

void flight_plan(struct flight *flight, const struct usual *usual, uint64_t *random)
{
    static const enum stop stops[] = { STOP_NOT,    STOP_DEADLINE,   STOP_DEADLINE, STOP_CANCEL,
                                       STOP_CANCEL, STOP_ALLOCATION, STOP_MEMORY };
    flight->stop = stops[random_below(random, sizeof stops / sizeof stops[0])];
    flight->mode = random_below(random, 2) == 0 ? STINT_JUMP : STINT_FAIL;
    flight->after_ns = 0;
    flight->limit = 0;
    switch (flight->stop) {
    case STOP_DEADLINE:
        flight->after_ns = 1 + random_below(random, usual->ns + 1);
        break;
    case STOP_CANCEL: /* it may wait for a child as long as another flight takes */
        flight->after_ns = 1 + random_below(random, 2 * usual->ns + 1);
        break;
    case STOP_ALLOCATION:
        flight->limit = 1 + random_below(random, usual->allocated + 1);
        break;
    case STOP_MEMORY:
        flight->limit = 1 + random_below(random, usual->peak + 1);
        break;
    case STOP_NOT:
        break;
    }
}

static stint_options options_of(const struct flight *flight)
{
    stint_options options = STINT_OPTIONS_INIT;
    options.on_interrupt = flight->mode;
    if (flight->stop == STOP_ALLOCATION)
        options.budget.allocation = flight->limit;
    else if (flight->stop == STOP_MEMORY)
        options.budget.memory = flight->limit;
    if (flight->limit != 0)
        options.budget.run_ns = FLIGHT_PATIENCE_NS;
    else if (flight->stop == STOP_DEADLINE)
        options.budget.run_ns = flight->after_ns;
    return options;
}

int flight_launch(struct flight *flight, stint_pool *pool, stint_wall *wall)
{
    stint_options options = options_of(flight);
    int error =
        stint_submit_walled(pool, wall, run_library, &flight->input, sizeof flight->input, &options, &flight->future);
    if (error == 0 && flight->stop == STOP_CANCEL)
        set_due(flight, now_ns() + flight->after_ns);
    return error;
}

static enum landing judge_answer(const struct flight *flight)
{
    uint64_t answer;
    if (flight->outcome.payload_size != sizeof answer)
        return LANDED_WRONG;
    memcpy(&answer, flight->outcome.value, sizeof answer);
    return answer == flight->answer ? LANDED_OK : LANDED_WRONG;
}

/* Where allocations were limited: the limit, or what the code has made of it. */
static enum landing judge_limited(stint_reason reason, stint_reason limit, enum landing limited)
{
    if (reason == limit)
        return limited;
    switch ((int)reason) {
    case STINT_REASON_CRASH:
        return LANDED_CRASH;
    case STINT_REASON_EXIT:
        return LANDED_EXIT;
    case STINT_REASON_KILLED:
        return LANDED_KILLED;
    case STINT_REASON_EXCEPTION:
        return LANDED_THROWN;
    case STINT_REASON_DEADLINE:
        return LANDED_STUCK;
    default:
        return LANDED_WRONG;
    }
}

static enum landing judge(const struct flight *flight)
{
    const stint_outcome *outcome = &flight->outcome;
    if (outcome->status == STINT_OK)
        return judge_answer(flight);
    if (outcome->status == STINT_CANCELLED)
        return flight->stop == STOP_CANCEL && outcome->reason == STINT_REASON_TOKEN ? LANDED_CANCELLED : LANDED_WRONG;
    switch (flight->stop) {
    case STOP_DEADLINE:
        return outcome->reason == STINT_REASON_DEADLINE ? LANDED_DEADLINE : LANDED_WRONG;
    case STOP_ALLOCATION:
        return judge_limited(outcome->reason, STINT_REASON_ALLOCATION_LIMIT, LANDED_ALLOCATION);
    case STOP_MEMORY:
        return judge_limited(outcome->reason, STINT_REASON_MEMORY_LIMIT, LANDED_MEMORY);
    default:
        return LANDED_WRONG;
    }
}

enum landing flight_land(struct flight *flight)
{
    stint_outcome *outcome = &flight->outcome;
    stint_future_wait(flight->future, outcome);
    set_due(flight, 0);
    enum landing landing = judge(flight);
    free(outcome->value);
    memset(&flight->death, 0, sizeof flight->death);
    if (outcome->status == STINT_ERROR && outcome->payload_size == sizeof flight->death)
        memcpy(&flight->death, outcome->payload, sizeof flight->death);
    stint_future_release(flight->future);
    flight->future = NULL;
    return landing;
}

void flight_describe(const struct flight *flight, char *line, size_t size)
{
    static const char *const stops[] = { "not stopped", "deadline after", "cancelled after", "allocation limit of",
                                         "memory limit of" };
    int length = snprintf(line, size, "seed %u, %s", flight->input.seed, stops[flight->stop]);
    if (flight->limit != 0)
        snprintf(line + length, size - (size_t)length, " %zu bytes, in STINT_%s", flight->limit,
                 flight->mode == STINT_JUMP ? "JUMP" : "FAIL");
    else if (flight->stop != STOP_NOT)
        snprintf(line + length, size - (size_t)length, " %" PRIu64 " ns", flight->after_ns);
}
