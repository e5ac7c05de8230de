/* SPDX-License-Identifier: MIT
 *
 * overload.*: what becomes of a pool that is offered ten times what it can do. Its tasks take a fixed time of the
 * processor, and there is one worker, so that the producers have a processor too. Each measurement first finds out how
 * many tasks the pool does when it is never idle and never refuses one, then offers ten times as many. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "bench.h"
#include "statistics.h"
#include "task.h"

#define CAPACITY 256
#define SERVICE_NS 50000
#define UNLOADED_NS 300e6
#define OVERLOAD_NS 700e6
#define PRODUCERS 2
#define OFFERED 10 /* times what the pool can do */
#define RECORDS 100000

static double latencies[RECORDS];
static atomic_size_t done;

struct request {
    double submitted;
};

static int serve_unloaded(void *arg, void **value)
{
    (void)arg;
    (void)value;
    bench_spin(SERVICE_NS);
    return 0;
}

static int serve_request(void *arg, void **value)
{
    struct request *request = arg;
    (void)value;
    bench_spin(SERVICE_NS);
    size_t number = atomic_fetch_add_explicit(&done, 1, memory_order_relaxed);
    if (number < RECORDS)
        latencies[number] = bench_now_ns() - request->submitted;
    free(request);
    return 0;
}

static void prepare(unsigned workers)
{
    stint_pool_options options = STINT_POOL_OPTIONS_INIT;
    options.workers = workers;
    options.queue_capacity = CAPACITY;
    if (stint_pool_create(&options, &bench_pool) != 0)
        exit(1);
}

/* Nanoseconds a task, with a window of them always in the queue. */
static double unloaded_cost(void)
{
    enum { WINDOW = 16 };
    stint_future *futures[WINDOW];
    size_t count = 0;
    double begin = bench_now_ns();
    for (; bench_now_ns() - begin < UNLOADED_NS || count < WINDOW; count++) {
        if (count >= WINDOW) {
            stint_future_wait(futures[count % WINDOW], NULL);
            stint_future_release(futures[count % WINDOW]);
        }
        futures[count % WINDOW] = bench_submit(serve_unloaded, NULL, NULL);
    }
    for (size_t i = 0; i < WINDOW; i++) {
        stint_future_wait(futures[(count + i) % WINDOW], NULL);
        stint_future_release(futures[(count + i) % WINDOW]);
    }
    return (bench_now_ns() - begin) / (double)count;
}

struct producer {
    pthread_t thread;
    double interval; /* from one submission to the next */
    double end;
    size_t offered;
    size_t accepted;
    bool failed;
};

/* A submission that comes late is made up for: the rate is kept. */
static void *produce(void *arg)
{
    struct producer *producer = arg;
    double begin = bench_now_ns();
    double now;
    while ((now = bench_now_ns()) < producer->end) {
        if (begin + (double)producer->offered * producer->interval > now) {
            nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
            continue;
        }
        struct request *request = malloc(sizeof *request);
        stint_future *future;
        request->submitted = now;
        int error = stint_submit(bench_pool, serve_request, request, NULL, &future);
        producer->offered++;
        if (error == 0) {
            producer->accepted++;
            stint_future_release(future);
            continue;
        }
        producer->failed = producer->failed || error != EAGAIN;
        free(request);
    }
    return NULL;
}

struct overload {
    double cost;  /* nanoseconds a task, of the tasks done while they were offered, */
    double plain; /* and without overload */
    double p99;   /* latency of those that were accepted */
};

static bool overload(struct overload *result)
{
    struct producer producers[PRODUCERS];
    size_t accepted = 0;
    bool good = true;
    result->plain = unloaded_cost();
    atomic_store_explicit(&done, 0, memory_order_relaxed);
    double begin = bench_now_ns();
    for (size_t i = 0; i < PRODUCERS; i++) {
        producers[i] = (struct producer){ .interval = result->plain * PRODUCERS / OFFERED, .end = begin + OVERLOAD_NS };
        good = pthread_create(&producers[i].thread, NULL, produce, &producers[i]) == 0 && good;
    }
    for (size_t i = 0; i < PRODUCERS; i++) {
        pthread_join(producers[i].thread, NULL);
        good = good && !producers[i].failed && producers[i].accepted < producers[i].offered;
        accepted += producers[i].accepted;
    }
    result->cost = (bench_now_ns() - begin) / (double)atomic_load_explicit(&done, memory_order_relaxed);
    /* Every one that was accepted gets its outcome. */
    while (atomic_load_explicit(&done, memory_order_relaxed) < accepted)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    struct figures sorted = { .list = latencies, .count = accepted < RECORDS ? accepted : RECORDS, .room = RECORDS };
    figures_sort(&sorted);
    result->p99 = figures_quantile(&sorted, 0.99);
    return good;
}

static size_t measure_cost(double *figures)
{
    struct overload result;
    if (!overload(&result))
        return 0;
    figures[0] = 100 * result.cost / result.plain;
    return 1;
}

/* A full queue, and the task that was running. */
static size_t measure_p99(double *figures)
{
    struct overload result;
    if (!overload(&result))
        return 0;
    figures[0] = 100 * result.p99 / ((CAPACITY + 1) * result.cost);
    return 1;
}

const struct bench bench_overload[] = {
    { .name = "overload.cost",
      .unit = "percent",
      .what = "time a task, offered ten times as many as can be done, of that without overload",
      .rounds = 1,
      .no_ratios = true,
      .subjects = { { "stint", .prepare = prepare, .measure = measure_cost } },
      .targets = { { "stint", BENCH_MEDIAN, 105, NULL } } },
    { .name = "overload.p99",
      .unit = "percent",
      .what = "p99 of the accepted ones' latency, of queue length times service time",
      .rounds = 1,
      .no_ratios = true,
      .subjects = { { "stint", .prepare = prepare, .measure = measure_p99 } },
      .targets = { { "stint", BENCH_MEDIAN, 110, NULL } } },
    { .name = NULL },
};
