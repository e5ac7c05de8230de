/* SPDX-License-Identifier: MIT
 *
 * submit.*, idle.*, trace.*: what it costs to hand a task to the pool, what a pool costs that has nothing to do, and
 * what it costs more while a trace runs. */
#include <fcntl.h>
#include <semaphore.h>
#include <stdlib.h>
#include <stint/observe.h>
#include <unistd.h>

#include "bench.h"
#include "task.h"

#define STREAM 100000 /* tasks a measurement: ten of them are a million */
#define WINDOW 2048   /* futures held at once */
#define HELD_TURNS 8
#define FIRSTS 50
#define TREE 22
#define TREE_VALUE 17711
#define TREE_TASKS 28656 /* each call with n > 1 submits one: fib(n + 1) - 1 in all */

static void submit_stream(void)
{
    static stint_future *futures[WINDOW];
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = (size_t)1 << 20;
    for (size_t i = 0; i < STREAM + WINDOW; i++) {
        if (i >= WINDOW)
            bench_finish(futures[i % WINDOW]);
        if (i < STREAM)
            futures[i % WINDOW] = bench_submit(bench_empty_task, NULL, &options);
    }
}

static size_t stream(double *figures)
{
    double begin = bench_process_ns();
    submit_stream();
    figures[0] = (bench_process_ns() - begin) / STREAM;
    return 1;
}

/* What a trace costs is the time of those who submit, and not that of the thread which writes it. */
static size_t traced_stream(double *figures)
{
    double begin = bench_now_ns();
    submit_stream();
    figures[0] = (bench_now_ns() - begin) / STREAM;
    return 1;
}

/* The trace ends with the process. */
static void prepare_traced(unsigned workers)
{
    bench_prepare_pool(workers);
    if (stint_trace_start(open("/dev/null", O_WRONLY)) != 0)
        exit(1);
}

static int wait_for_release(void *release, void **value)
{
    (void)value;
    while (sem_wait(release) != 0)
        ;
    return 0;
}

/* The worker is busy meanwhile: so each submission takes the same way, and its instructions can be counted. */
static size_t held_stream(double *figures)
{
    static stint_future *futures[WINDOW];
    stint_options options = STINT_OPTIONS_INIT;
    options.budget.memory = (size_t)1 << 20;
    double time = 0;
    for (size_t turn = 0; turn < HELD_TURNS; turn++) {
        sem_t release;
        sem_init(&release, 0, 0);
        stint_future *holder = bench_submit(wait_for_release, &release, NULL);
        double begin = bench_thread_ns();
        for (size_t i = 0; i < WINDOW; i++)
            futures[i] = bench_submit(bench_empty_task, NULL, &options);
        time += bench_thread_ns() - begin;
        sem_post(&release);
        bench_finish(holder);
        for (size_t i = 0; i < WINDOW; i++)
            bench_finish(futures[i]);
        sem_destroy(&release);
    }
    figures[0] = time / (HELD_TURNS * WINDOW);
    return 1;
}

static size_t round_trips(double *figures)
{
    for (size_t i = 0; i < BENCH_FIGURES_MAX; i++) {
        double begin = bench_now_ns();
        bench_finish(bench_submit(bench_empty_task, NULL, NULL));
        figures[i] = bench_now_ns() - begin;
    }
    return BENCH_FIGURES_MAX;
}

static int fibonacci(void *arg, void **value)
{
    uintptr_t n = (uintptr_t)arg;
    void *right = NULL;
    stint_outcome left;
    if (n < 2) {
        *value = arg;
        return 0;
    }
    stint_future *future = bench_submit(fibonacci, (void *)(n - 1), NULL);
    fibonacci((void *)(n - 2), &right);
    stint_future_wait(future, &left);
    stint_future_release(future);
    *value = (void *)((uintptr_t)left.value + (uintptr_t)right);
    return 0;
}

static size_t tree(double *figures)
{
    stint_outcome outcome;
    double begin = bench_now_ns();
    stint_future *future = bench_submit(fibonacci, (void *)(uintptr_t)TREE, NULL);
    stint_future_wait(future, &outcome);
    stint_future_release(future);
    figures[0] = (bench_now_ns() - begin) / TREE_TASKS;
    return (uintptr_t)outcome.value == TREE_VALUE ? 1 : 0;
}

/* So that the workers have begun, and have had time to lie down. */
static void prepare_idle(unsigned workers)
{
    bench_prepare_pool(workers);
    bench_finish(bench_submit(bench_empty_task, NULL, NULL));
    sleep(1);
}

static double first_begun;

static int note_time(void *arg, void **value)
{
    (void)arg;
    (void)value;
    first_begun = bench_now_ns();
    return 0;
}

/* From the submission to the start, when the pool has been asleep for a while. */
static size_t first_task(double *figures)
{
    for (size_t i = 0; i < FIRSTS; i++) {
        usleep(5000);
        double begin = bench_now_ns();
        bench_finish(bench_submit(note_time, NULL, NULL));
        figures[i] = first_begun - begin;
    }
    return FIRSTS;
}

/* A pool is started, one task runs on it, and it ends: what a worker costs with all that its thread has to have. */
static size_t start_and_end(double *figures)
{
    stint_pool_options options = STINT_POOL_OPTIONS_INIT;
    options.workers = 1;
    for (size_t i = 0; i < FIRSTS; i++) {
        stint_pool *pool;
        stint_future *future;
        double begin = bench_now_ns();
        if (stint_pool_create(&options, &pool) != 0 || stint_submit(pool, bench_empty_task, NULL, NULL, &future) != 0)
            exit(1);
        stint_future_release(future);
        stint_pool_shutdown(pool, STINT_SHUTDOWN_DRAIN, STINT_FOREVER);
        stint_pool_destroy(pool);
        figures[i] = bench_now_ns() - begin;
    }
    return FIRSTS;
}

#define TBB(subject)                                                                                                   \
    {                                                                                                                  \
        subject, .program = "stint-bench-tbb", .package = "libtbb-dev"                                                 \
    }

#define MACHINE                                                                                                        \
    {                                                                                                                  \
        "machine", .program = "stint-bench-glibc", .bare = true                                                        \
    }

const struct bench bench_submitting[] = {
    { .name = "submit.future",
      .unit = "ns/op",
      .what = "bounded empty tasks with futures from one outside thread, in processor time; the peers give no result",
      .rounds = 40,
      .workers = BENCH_ALL,
      .subjects = { { "stint", .prepare = bench_prepare_pool, .measure = stream },
                    TBB("tbb-enqueue"),
                    { "glib-pool", .program = "stint-bench-glib", .package = "libglib2.0-dev" },
                    MACHINE },
      .targets = { { "stint", BENCH_RATIO, 2, "machine" }, { "stint", BENCH_RATIO, 0.5, "tbb-enqueue" } } },
    { .name = "submit.held",
      .unit = "ns/op",
      .what = "the submitter's part of it alone, in processor time",
      .rounds = 12,
      .subjects = { { "stint", .prepare = bench_prepare_pool, .measure = held_stream } } },
    { .name = "submit.pingpong",
      .unit = "ns/op",
      .what = "an empty task submitted and waited for, one at a time",
      .rounds = 60,
      .workers = BENCH_ALL,
      .histogram = true,
      .subjects = { { "stint", .prepare = bench_prepare_pool, .measure = round_trips }, TBB("tbb-future") },
      .targets = { { "stint", BENCH_RATIO, 1, "tbb-future" } } },
    { .name = "submit.tree",
      .unit = "ns/op",
      .what = "a tree of tasks that submit and await tasks",
      .rounds = 12,
      .workers = BENCH_ALL,
      .subjects = { { "stint", .prepare = bench_prepare_pool, .measure = tree } } },
    { .name = "idle.first",
      .unit = "ns",
      .what = "from the submission of a task to its start in a pool that has been asleep",
      .rounds = 4,
      .workers = BENCH_ALL,
      .histogram = true,
      .subjects = { { "stint", .prepare = prepare_idle, .measure = first_task }, MACHINE },
      .targets = { { "stint", BENCH_RATIO, 4, "machine" } } },
    { .name = "idle.cpu",
      .unit = "percent",
      .what = "of one processor, that a pool takes which has nothing to do",
      .rounds = 2,
      .workers = BENCH_ALL,
      .no_ratios = true,
      .subjects = { { "stint", .prepare = prepare_idle, .measure = bench_idle }, TBB("tbb") },
      .targets = { { "stint", BENCH_MEDIAN, 0.1, NULL } } },
    { .name = "trace.submit",
      .unit = "ns/op",
      .what = "submit.future while a trace runs that is written to /dev/null; and while none does",
      .rounds = 12,
      .workers = BENCH_ALL,
      .subjects = { { "stint", .prepare = prepare_traced, .measure = traced_stream },
                    { "no-trace", .prepare = bench_prepare_pool, .measure = traced_stream } },
      .targets = { { "stint", BENCH_RATIO, 1.05, "no-trace" } } },
    { .name = "start.worker",
      .unit = "ns",
      .what = "a pool of one worker, from its start to its end, with one empty task",
      .rounds = 4,
      .subjects = { { "stint", .measure = start_and_end } } },
    { .name = NULL },
};
