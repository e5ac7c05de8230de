/* SPDX-License-Identifier: MIT
 *
 * wall.*: tasks in processes of their own: what the way to a child and back takes, what a new child takes, and what it
 * holds. Each subject's process makes its wall first, while it has one thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "machine.h"
#include "task.h"
#include "work.h"

#define REUSED_TRIPS 300
#define FRESH_TRIPS 30
#define PACED_TRIPS 20
#define BYTES ((size_t)16 << 20)
#define JOBS 20
#define THROUGHPUT_WINDOW 4 /* tasks that wait or run at once: no child is ever without one */
#define THROUGHPUT_JOBS 60

static stint_wall *wall;

static void make_wall(unsigned children, unsigned tasks_per_child, unsigned spare, stint_wall_setup_fn *setup)
{
    char message[256] = "";
    stint_wall_options options = STINT_WALL_OPTIONS_INIT;
    options.children = children;
    options.tasks_per_child = tasks_per_child;
    options.spare = spare;
    options.setup = setup;
    options.message = message;
    options.message_size = sizeof message;
    int error = stint_wall_create(&options, &wall);
    if (error != 0) {
        fprintf(stderr, "stint-bench: no wall: %s: %s\n", strerror(error), message);
        exit(1);
    }
}

static stint_future *submit(stint_wall_fn *fn, const void *input, size_t size)
{
    stint_future *future;
    if (stint_submit_walled(bench_pool, wall, fn, input, size, NULL, &future) != 0)
        exit(1);
    return future;
}

/* A task that does not end Ok is no measurement. */
static void finish(stint_future *future)
{
    stint_outcome outcome;
    if (stint_future_wait(future, &outcome) != 0 || outcome.status != STINT_OK)
        exit(1);
    stint_free(outcome.value);
    stint_future_release(future);
}

/* --- A round trip. --- */

static int do_nothing(const void *input, size_t size, stint_reply *reply)
{
    (void)input;
    (void)size;
    (void)reply;
    return 0;
}

static size_t measure_trips(size_t trips, double *figures)
{
    double begin = bench_now_ns();
    for (size_t i = 0; i < trips; i++)
        finish(submit(do_nothing, NULL, 0));
    figures[0] = (bench_now_ns() - begin) / (double)trips / 1e3;
    return 1;
}

static void prepare_reused(unsigned workers)
{
    make_wall(1, STINT_WALL_REUSED, 0, NULL);
    bench_prepare_pool(workers);
}

static size_t reused(double *figures)
{
    return measure_trips(REUSED_TRIPS, figures);
}

static void prepare_fresh(unsigned workers)
{
    make_wall(1, 1, 0, NULL);
    bench_prepare_pool(workers);
}

static size_t fresh(double *figures)
{
    return measure_trips(FRESH_TRIPS, figures);
}

static void prepare_spare(unsigned workers)
{
    make_wall(1, 1, 4, NULL);
    bench_prepare_pool(workers);
}

/* After a pause, in which the child is made that is to be the next spare one. */
static size_t paced(double *figures)
{
    for (size_t i = 0; i < PACED_TRIPS; i++) {
        usleep(MACHINE_PACE_US);
        double begin = bench_now_ns();
        finish(submit(do_nothing, NULL, 0));
        figures[i] = (bench_now_ns() - begin) / 1e3;
    }
    return PACED_TRIPS;
}

/* --- Bytes. --- */

static char *bytes;

/* The child's own work would be to fill the reply; it is not measured here. */
static int give_as_much(const void *input, size_t size, stint_reply *reply)
{
    char *room = stint_reply_reserve(reply, size);
    if (room == NULL)
        return 1;
    room[0] = *(const char *)input;
    return 0;
}

static void prepare_bytes(unsigned workers)
{
    make_wall(1, STINT_WALL_REUSED, 0, NULL);
    bench_prepare_pool(workers);
    bytes = malloc(BYTES);
    if (bytes == NULL)
        exit(1);
    memset(bytes, 1, BYTES);
}

static size_t give_bytes(double *figures)
{
    for (size_t i = 0; i < MACHINE_COPIES; i++) {
        double begin = bench_now_ns();
        finish(submit(give_as_much, bytes, BYTES));
        figures[i] = (bench_now_ns() - begin) / 1e6;
    }
    return MACHINE_COPIES;
}

/* --- A job. --- */

/* As a setup function: a library has much to make when it is first used. */
static int parse_first(void *unused)
{
    (void)unused;
    work_parse_first(1);
    return 0;
}

static int parse(const void *input, size_t size, stint_reply *reply)
{
    int orders = work_parse_order(input, size);
    return orders < 0 ? 1 : stint_reply_write(reply, &orders, sizeof orders);
}

static int parse_in_place(void *arg, void **value)
{
    (void)value;
    size_t size;
    const char *order = work_order(&size);
    return work_parse_order(order, size) < 0 || arg != NULL;
}

/* What the process comes to hold later is not the template's. */
static void prepare_job_with(unsigned spare, unsigned workers)
{
    make_wall(1, 1, spare, parse_first);
    work_hold_much(workers);
    bench_prepare_pool(workers);
}

static void prepare_job(unsigned workers)
{
    prepare_job_with(4, workers);
}

static void prepare_fresh_job(unsigned workers)
{
    prepare_job_with(0, workers);
}

/* As a request comes now and then: the spare child is made meanwhile. */
static size_t paced_job(double *figures)
{
    size_t size;
    const char *order = work_order(&size);
    for (size_t i = 0; i < PACED_TRIPS; i++) {
        usleep(MACHINE_PACE_US);
        double begin = bench_now_ns();
        finish(submit(parse, order, size));
        figures[i] = (bench_now_ns() - begin) / 1e3;
    }
    return PACED_TRIPS;
}

static size_t job(double *figures)
{
    size_t size;
    const char *order = work_order(&size);
    double begin = bench_now_ns();
    for (size_t i = 0; i < JOBS; i++)
        finish(submit(parse, order, size));
    figures[0] = (bench_now_ns() - begin) / JOBS / 1e3;
    return 1;
}

/* --- Throughput. --- */

static stint_future *submit_job(bool walled)
{
    size_t size;
    const char *order = work_order(&size);
    return walled ? submit(parse, order, size) : bench_submit(parse_in_place, NULL, NULL);
}

static size_t throughput(bool walled, size_t jobs, double *figures)
{
    stint_future *futures[THROUGHPUT_WINDOW] = { NULL };
    double begin = bench_now_ns();
    for (size_t i = 0; i < jobs + THROUGHPUT_WINDOW; i++) {
        stint_future **place = &futures[i % THROUGHPUT_WINDOW];
        if (*place != NULL)
            finish(*place);
        *place = i < jobs ? submit_job(walled) : NULL;
    }
    figures[0] = (bench_now_ns() - begin) / (double)jobs / 1e3;
    return 1;
}

static void prepare_fresh_throughput(unsigned workers)
{
    make_wall(workers, 1, 0, parse_first);
    bench_prepare_pool(workers);
}

static void prepare_reused_throughput(unsigned workers)
{
    make_wall(workers, STINT_WALL_REUSED, 0, parse_first);
    bench_prepare_pool(workers);
}

static size_t fresh_throughput(double *figures)
{
    return throughput(true, THROUGHPUT_JOBS, figures);
}

static size_t reused_throughput(double *figures)
{
    return throughput(true, 10 * (size_t)THROUGHPUT_JOBS, figures);
}

static size_t pool_throughput(double *figures)
{
    return throughput(false, 10 * (size_t)THROUGHPUT_JOBS, figures);
}

/* --- Memory. --- */

#define SPARES 16
#define SETTLE_US 100000

/* KiB of the process; what several share is divided among them. */
static double proportional_size(long process)
{
    char path[64];
    char line[128];
    double size = 0;
    snprintf(path, sizeof path, "/proc/%ld/smaps_rollup", process);
    FILE *rollup = fopen(path, "re");
    while (rollup != NULL && fgets(line, sizeof line, rollup) != NULL && sscanf(line, "Pss: %lf", &size) != 1)
        ;
    if (rollup == NULL || size == 0)
        exit(1);
    fclose(rollup);
    return size;
}

/* The process and all that it has started, and how many those are. */
static double size_of_family(long process, size_t *count)
{
    char path[64];
    long child;
    double size = proportional_size(process);
    ++*count;
    snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", process, process);
    FILE *children = fopen(path, "re");
    while (children != NULL && fscanf(children, "%ld", &child) == 1)
        size += size_of_family(child, count);
    if (children == NULL)
        exit(1);
    fclose(children);
    return size;
}

static double size_with_spares(unsigned spare)
{
    size_t count = 0;
    make_wall(1, 1, spare, NULL);
    usleep(SETTLE_US); /* until they wait for a task */
    double size = size_of_family(getpid(), &count);
    if (stint_wall_destroy(wall) != 0 || count != 3 + spare) /* this process, the guardian, the template */
        exit(1);
    return size;
}

/* Of all processes together: what they share costs the others less where there are more. */
static size_t spare_memory(double *figures)
{
    figures[0] = (size_with_spares(SPARES) - size_with_spares(0)) / SPARES;
    return 1;
}

#define GLIBC(subject)                                                                                                 \
    {                                                                                                                  \
        subject, .program = "stint-bench-glibc"                                                                        \
    }
#define BARE                                                                                                           \
    {                                                                                                                  \
        "machine", .program = "stint-bench-glibc", .bare = true                                                        \
    }

const struct bench bench_wall[] = {
    { .name = "wall.reused",
      .unit = "us",
      .what = "an empty task in a child that is used again, from its submission to its end",
      .rounds = 12,
      .subjects = { { "stint", .prepare = prepare_reused, .measure = reused }, BARE },
      .targets = { { "stint", BENCH_RATIO, 2.5, "machine" } } },
    { .name = "wall.fresh",
      .unit = "us",
      .what = "an empty task in a child that is made for it",
      .rounds = 8,
      .subjects = { { "stint", .prepare = prepare_fresh, .measure = fresh },
                    { "fork", .measure = machine_fork, .bare = true },
                    { "fork-mimalloc", .program = "stint-bench-mimalloc", .bare = true } },
      .targets = { { "stint", BENCH_RATIO, 1.3, "fork" } } },
    { .name = "wall.spare",
      .unit = "us",
      .what = "an empty task in a child that was made ahead, 2 ms after the last",
      .rounds = 4,
      .subjects = { { "stint", .prepare = prepare_spare, .measure = paced },
                    { "stint-reused", .prepare = prepare_reused, .measure = paced },
                    BARE } },
    { .name = "wall.bytes",
      .unit = "ms",
      .what = "16 MiB to a child that is used again, and 16 MiB back",
      .rounds = 8,
      .subjects = { { "stint", .prepare = prepare_bytes, .measure = give_bytes },
                    { "copies", .prepare = machine_copies_prepare, .measure = machine_copies, .bare = true } },
      .targets = { { "stint", BENCH_RATIO, 1.2, "copies" } } },
    { .name = "wall.job",
      .unit = "us",
      .what = "parse 4 KB of XML in a new child, made ahead or (fresh) not, in a process that holds 256 MB",
      .rounds = 6,
      .subjects = { { "stint", .prepare = prepare_job, .measure = paced_job },
                    { "stint-fresh", .prepare = prepare_fresh_job, .measure = job },
                    GLIBC("fork-rlimit"),
                    GLIBC("posix_spawn") },
      .targets = { { "stint", BENCH_RATIO, 0.05, "fork-rlimit" } } },
    { .name = "wall.throughput",
      .unit = "us",
      .what = "the same parsing, as much of it as two children can do, for one",
      .rounds = 6,
      .workers = 2,
      .subjects = { { "stint-fresh", .prepare = prepare_fresh_throughput, .measure = fresh_throughput },
                    { "stint-reused", .prepare = prepare_reused_throughput, .measure = reused_throughput },
                    { "pool", .prepare = bench_prepare_pool, .measure = pool_throughput },
                    GLIBC("fork-rlimit") } },
    { .name = "wall.memory",
      .unit = "KiB",
      .what = "memory that a spare child takes, by proportional set sizes",
      .rounds = 2,
      .subjects = { { "stint", .measure = spare_memory } },
      .targets = { { "stint", BENCH_MEDIAN, 1024, NULL } } },
    { .name = NULL },
};
