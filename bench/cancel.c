/* SPDX-License-Identifier: MIT
 *
 * cancel.*: how long it takes from a set token to a resolved future, in a pool of two workers. The setting thread
 * watches the future, so two processors are busy: what else runs on the machine is in the figures. */
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "bench.h"
#include "task.h"

#define WORKERS 2
#define CANCELS 50 /* a measurement */

static atomic_bool started;

static int allocate_for_ever(void *arg, void **value)
{
    (void)arg;
    (void)value;
    void *block;
    do {
        block = malloc(100);
        __asm__ volatile("" : "+r"(block) : : "memory"); /* or clang makes none */
        atomic_store_explicit(&started, true, memory_order_relaxed);
        free(block);
    } while (block != NULL);
    return 1;
}

static int loop_for_ever(void *arg, void **value)
{
    (void)arg;
    (void)value;
    atomic_store_explicit(&started, true, memory_order_relaxed);
    while (atomic_load_explicit(&started, memory_order_relaxed))
        ;
    return 1;
}

static void wait_ns(double time)
{
    double end = bench_now_ns() + time;
    while (bench_now_ns() < end)
        ;
}

static double until_resolved(const stint_future *future, stint_token *token)
{
    double begin = bench_now_ns();
    stint_token_set(token);
    while (!stint_future_is_ready(future))
        ;
    return bench_now_ns() - begin;
}

static bool ended_by_token(stint_future *future)
{
    stint_outcome outcome;
    stint_future_wait(future, &outcome);
    stint_future_release(future);
    return outcome.reason == STINT_REASON_TOKEN;
}

static size_t cancel_running(stint_fn *fn, bool preemptible, double *figures)
{
    for (size_t i = 0; i < CANCELS; i++) {
        stint_options options = STINT_OPTIONS_INIT;
        options.preemptible = preemptible;
        if (stint_token_create(NULL, &options.token) != 0)
            return 0;
        atomic_store_explicit(&started, false, memory_order_relaxed);
        stint_future *future = bench_submit(fn, NULL, &options);
        while (!atomic_load_explicit(&started, memory_order_relaxed))
            ;
        wait_ns((double)(i * 2000));
        figures[i] = until_resolved(future, options.token);
        stint_token_release(options.token);
        if (!ended_by_token(future))
            return 0;
    }
    return CANCELS;
}

static size_t cancel_allocating(double *figures)
{
    return cancel_running(allocate_for_ever, false, figures);
}

static size_t cancel_looping(double *figures)
{
    return cancel_running(loop_for_ever, true, figures);
}

static sem_t gate;

static int wait_at_gate(void *arg, void **value)
{
    (void)value;
    atomic_fetch_add_explicit((atomic_uint *)arg, 1, memory_order_relaxed);
    sem_wait(&gate);
    return 0;
}

/* Every worker is busy, asleep, while the queued ones are cancelled. */
static size_t cancel_queued(double *figures)
{
    stint_future *busy[WORKERS];
    atomic_uint waiting = 0;
    bool good = sem_init(&gate, 0, 0) == 0;
    for (size_t i = 0; i < WORKERS; i++)
        busy[i] = bench_submit(wait_at_gate, &waiting, NULL);
    while (atomic_load_explicit(&waiting, memory_order_relaxed) < WORKERS)
        sched_yield();
    for (size_t i = 0; i < CANCELS; i++) {
        stint_future *future = bench_submit(bench_empty_task, NULL, NULL);
        double begin = bench_now_ns();
        stint_future_cancel(future);
        while (!stint_future_is_ready(future))
            ;
        figures[i] = bench_now_ns() - begin;
        good = ended_by_token(future) && good;
    }
    for (size_t i = 0; i < WORKERS; i++)
        sem_post(&gate);
    for (size_t i = 0; i < WORKERS; i++) {
        stint_future_wait(busy[i], NULL);
        stint_future_release(busy[i]);
    }
    sem_destroy(&gate);
    return good ? CANCELS : 0;
}

#define MACHINE                                                                                                        \
    {                                                                                                                  \
        "machine", .program = "stint-bench-glibc", .bare = true                                                        \
    }

const struct bench bench_cancel[] = {
    { .name = "cancel.allocating",
      .unit = "ns",
      .what = "token set to future resolved, the task allocates all the time",
      .rounds = 12,
      .workers = WORKERS,
      .histogram = true,
      .subjects = { { "stint", .prepare = bench_prepare_pool, .measure = cancel_allocating }, MACHINE },
      .targets = { { "stint", BENCH_P99, 10, "machine" } } },
    { .name = "cancel.looping",
      .unit = "ns",
      .what = "token set to future resolved, a preemptible task in an empty loop",
      .rounds = 12,
      .workers = WORKERS,
      .histogram = true,
      .subjects = { { "stint", .prepare = bench_prepare_pool, .measure = cancel_looping }, MACHINE },
      .targets = { { "stint", BENCH_P99, 50, "machine" } } },
    { .name = "cancel.queued",
      .unit = "ns",
      .what = "stint_future_cancel to future resolved, the task waits in the queue",
      .rounds = 12,
      .workers = WORKERS,
      .histogram = true,
      .subjects = { { "stint", .prepare = bench_prepare_pool, .measure = cancel_queued } } },
    { .name = NULL },
};
