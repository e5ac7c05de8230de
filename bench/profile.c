/* SPDX-License-Identifier: MIT
 *
 * profile.*: what a running profile costs work in tasks. Each measurement runs SQLite, libxml2 and Lua with a profile
 * and without, in turns, and gives by how many percent the first took longer. */
#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "bench.h"
#include "task.h"
#include "work.h"

#define TURNS 6
#define A_MINUTE ((uint64_t)60 * 1000000000)

/* What a profile does at least: one record a place, by its callstack, with what is live there. */
#define PLACES 4096

struct place {
    _Atomic uint64_t samples;
    _Atomic uint64_t live;
};

static struct place places[PLACES];

static void *count_alloc(const stint_memprof_allocation *allocation, void *arg)
{
    uintptr_t hash = 0;
    (void)arg;
    for (size_t i = 0; i < allocation->callstack_length; i++)
        hash = (hash ^ (uintptr_t)allocation->callstack[i]) * UINT64_C(0x9e3779b97f4a7c15);
    struct place *place = &places[hash >> 52];
    atomic_fetch_add_explicit(&place->samples, allocation->samples, memory_order_relaxed);
    atomic_fetch_add_explicit(&place->live, 1, memory_order_relaxed);
    return place;
}

static void count_dealloc(void *metadata, stint_memprof_end end, void *arg)
{
    struct place *place = metadata;
    (void)end;
    (void)arg;
    atomic_fetch_sub_explicit(&place->live, 1, memory_order_relaxed);
}

static double took(bench_measure_fn *work)
{
    double figure = 0;
    if (bench_in_task(work, A_MINUTE, &figure) == 0)
        exit(1);
    return figure;
}

static double took_profiled(bench_measure_fn *work, size_t interval)
{
    stint_memprof_options options = STINT_MEMPROF_OPTIONS_INIT;
    options.interval = interval;
    options.tracker = (stint_memprof_tracker){ count_alloc, NULL, count_dealloc };
    if (stint_memprof_start(&options) != 0)
        exit(1);
    double figure = took(work);
    if (stint_memprof_stop() != 0)
        exit(1);
    return figure;
}

/* The least of some turns, in which now the one and now the other is first: what else the machine does only adds. */
static void least_of_turns(bench_measure_fn *work, size_t interval, double *with, double *without)
{
    *with = *without = INFINITY;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        if (turn % 2 == 0)
            *with = fmin(*with, took_profiled(work, interval));
        *without = fmin(*without, took(work));
        if (turn % 2 != 0)
            *with = fmin(*with, took_profiled(work, interval));
    }
}

static size_t overhead(size_t interval, double *figures)
{
    static bench_measure_fn *const works[] = { work_sqlite, work_xml, work_lua };
    double with = 0;
    double without = 0;
    for (size_t i = 0; i < sizeof works / sizeof works[0]; i++) {
        double least_with;
        double least_without;
        least_of_turns(works[i], interval, &least_with, &least_without);
        with += least_with;
        without += least_without;
    }
    figures[0] = (with / without - 1) * 100;
    return 1;
}

#define MEASURE(name, interval)                                                                                        \
    static size_t overhead_##name(double *figures)                                                                     \
    {                                                                                                                  \
        return overhead(interval, figures);                                                                            \
    }
#define ROW(row, rate, percent)                                                                                        \
    {                                                                                                                  \
        .name = "profile.overhead." #row, .unit = "percent",                                                           \
        .what = "what a profile with a sample in " rate " costs SQLite, libxml2 and Lua", .rounds = 9,                 \
        .no_ratios = true, .subjects = { { "stint", .prepare = work_app_prepare, .measure = overhead_##row } },        \
        .targets = { { "stint", BENCH_MEDIAN, percent, NULL } },                                                       \
    }

MEASURE(512k, (size_t)512 << 10)
MEASURE(80k, 80000)
MEASURE(8k, 8000)

const struct bench bench_profile[] = {
    ROW(512k, "512 KiB", 0.5),
    ROW(80k, "10,000 words", 2),
    ROW(8k, "1,000 words", 10),
    { .name = NULL },
};
