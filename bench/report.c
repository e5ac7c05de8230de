/* SPDX-License-Identifier: MIT
 *
 * report.*: what it takes to take down a report, from the sample point at which a task is found cancelled to its first
 * guard; by the processor time of the thread, so that others do not count. */
#include <stdlib.h>
#include <stint/stint.h>

#include "bench.h"

#define STOPS 20
#define DEPTH 24
#define BLOCK 48
#define HELD ((size_t)64 << 20)

struct stop {
    stint_token *token;
    size_t held; /* bytes in small blocks */
    double begin;
    double end;
};

static void note_end(void *arg)
{
    struct stop *stop = arg;
    stop->end = bench_thread_ns();
}

static __attribute__((noinline)) int stop_below(struct stop *stop, unsigned depth)
{
    volatile unsigned left = depth;
    if (left > 0)
        return stop_below(stop, left - 1) + (int)left;
    stint_guard guard;
    stint_guard_push(&guard, note_end, stop);
    stint_token_set(stop->token);
    stop->begin = bench_thread_ns();
    stint_checkpoint();
    stint_guard_pop(&guard, false);
    return 0;
}

static int hold_and_stop(void *arg, void **value)
{
    struct stop *stop = arg;
    for (size_t held = 0; held < stop->held; held += BLOCK) {
        void **block = malloc(BLOCK);
        if (block == NULL)
            return 1;
        *block = *value;
        *value = block;
    }
    return stop_below(stop, DEPTH);
}

static double stop_once(stint_report_level level, size_t held)
{
    struct stop stop = { .held = held };
    stint_options options = STINT_OPTIONS_INIT;
    stint_outcome outcome;
    stint_report *report = NULL;
    if (stint_token_create(NULL, &stop.token) != 0)
        abort();
    options.token = stop.token;
    options.report = level;
    if (stint_run_reported(hold_and_stop, &stop, &options, &outcome, &report) != 0 ||
        outcome.reason != STINT_REASON_TOKEN || (report != NULL) != (level != STINT_REPORT_NONE))
        abort();
    stint_report_release(report);
    stint_token_release(stop.token);
    return stop.end - stop.begin;
}

static size_t stop_many(stint_report_level level, size_t held, size_t times, double *figures)
{
    double sum = 0;
    for (size_t i = 0; i < times; i++)
        sum += stop_once(level, held);
    figures[0] = sum / (double)times / 1e3;
    return 1;
}

static size_t stack(double *figures)
{
    return stop_many(STINT_REPORT_STACK, 0, STOPS, figures);
}

static size_t no_stack(double *figures)
{
    return stop_many(STINT_REPORT_NONE, 0, STOPS, figures);
}

static size_t heap(double *figures)
{
    return stop_many(STINT_REPORT_HEAP, HELD, 1, figures);
}

static size_t no_heap(double *figures)
{
    return stop_many(STINT_REPORT_NONE, HELD, 1, figures);
}

const struct bench bench_report[] = {
    { .name = "report.stack",
      .unit = "us",
      .what = "take down where a task is stopped, 24 calls deep",
      .rounds = 15,
      .no_ratios = true,
      .subjects = { { "stint", .measure = stack }, { "no-report", .measure = no_stack } },
      .targets = { { "stint", BENCH_MEDIAN, 50, NULL } } },
    { .name = "report.heap64m",
      .unit = "us",
      .what = "the same with 64 MiB in blocks of 48 bytes, and what they are",
      .rounds = 6,
      .no_ratios = true,
      .subjects = { { "stint", .measure = heap }, { "no-report", .measure = no_heap } },
      .targets = { { "stint", BENCH_MEDIAN, 1000, NULL } } },
    { .name = NULL },
};
