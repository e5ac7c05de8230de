/* SPDX-License-Identifier: MIT
 *
 * roots.*: what the scan of roots adds to a rollback. The row with much to scan is measured by a program of its own
 * (stint-bench-roots, of this same file), so that no other row has that to scan too. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <stint/stint.h>
#include <unistd.h>

#include "bench.h"

#define MIB ((size_t)1 << 20)
#define ROLLBACKS 20 /* a measurement of small tasks */

struct work {
    size_t blocks;
    size_t size;
    void **stale; /* NULL, or so many of the first blocks are freed and pointed to */
    size_t stale_count;
};

static double function_ended;

static int allocate_and_fail(void *arg, void **value)
{
    const struct work *work = arg;
    (void)value;
    for (size_t i = 0; i < work->blocks; i++) {
        char *volatile block = stint_malloc(work->size);
        *block = 1;
        if (i < work->stale_count)
            work->stale[i] = block;
    }
    for (size_t i = 0; i < work->stale_count; i++)
        stint_free(work->stale[i]);
    function_ended = bench_thread_ns();
    return 1;
}

/* The task's function is left out. */
static size_t roll_back(struct work work, size_t times, double *figures)
{
    stint_outcome outcome;
    double sum = 0;
    for (size_t i = 0; i < times; i++) {
        if (stint_run(allocate_and_fail, &work, NULL, &outcome) != 0 || outcome.usage.kept != 0)
            return 0;
        sum += bench_thread_ns() - function_ended;
    }
    figures[0] = sum / (double)times / 1e3;
    return 1;
}

static size_t small_heap(double *figures)
{
    return roll_back((struct work){ .blocks = 10, .size = 100 }, ROLLBACKS, figures);
}

static void do_not_scan(unsigned workers)
{
    (void)workers;
    stint_roots_set_scan(STINT_ROOT_SCAN_NEVER);
}

#ifdef BENCH_ROOTS_PROGRAM

static volatile uintptr_t data[64 * MIB / sizeof(uintptr_t)];

static void fill_data(unsigned workers)
{
    (void)workers;
    for (size_t i = 0; i < sizeof data / sizeof *data; i++)
        data[i] = i;
}

int main(int argc, char **argv)
{
    static const struct bench_work works[] = {
        { "roots.data", "stint", fill_data, small_heap },
        { "roots.data", "no-scan", do_not_scan, small_heap },
        { NULL, NULL, NULL, NULL },
    };
    return bench_serve_main(works, argc, argv);
}

#else

/* What writes profiles is loaded then, and is a part of the process from then on. */
static void write_profile(unsigned workers)
{
    (void)workers;
    int file = open("/dev/null", O_WRONLY);
    if (file < 0 || stint_profile_start(NULL) != 0 || stint_profile_stop() != 0)
        abort();
    stint_profile_write(file, STINT_PROFILE_PPROF);
    close(file);
}

static void *stale[100];

static size_t stale_pointers(double *figures)
{
    return roll_back((struct work){ .blocks = 100000, .size = 256, .stale = stale, .stale_count = 100 }, 1, figures);
}

/* What 2,000 failed tasks left in a library's table. */
#define KEPT 2000
static void *kept[KEPT];

static int leave_one(void *arg, void **value)
{
    (void)value;
    *(void **)arg = stint_malloc(64);
    return 1;
}

static void keep_many(unsigned workers)
{
    (void)workers;
    for (size_t i = 0; i < KEPT; i++) {
        stint_outcome outcome;
        if (stint_run(leave_one, &kept[i], NULL, &outcome) != 0 || outcome.usage.kept == 0)
            abort();
    }
}

static void keep_many_and_do_not_scan(unsigned workers)
{
    keep_many(workers);
    do_not_scan(workers);
}

/* --- Two threads, by the clock: whoever waits for another is slow --- */

#define THREADS 2
static pthread_barrier_t start;

static void *roll_back_a_share(void *good)
{
    struct work work = { .blocks = 10, .size = 100 };
    stint_outcome outcome;
    pthread_barrier_wait(&start);
    *(bool *)good = true;
    for (size_t i = 0; i < ROLLBACKS; i++)
        *(bool *)good &= stint_run(allocate_and_fail, &work, NULL, &outcome) == 0 && outcome.usage.kept == 0;
    return NULL;
}

static size_t on_threads(size_t count, double *figures)
{
    pthread_t threads[THREADS];
    bool good[THREADS];
    pthread_barrier_init(&start, NULL, (unsigned)count + 1);
    for (size_t i = 0; i < count; i++) {
        if (pthread_create(&threads[i], NULL, roll_back_a_share, &good[i]) != 0)
            abort();
    }
    pthread_barrier_wait(&start);
    double begin = bench_now_ns();
    bool all = true;
    for (size_t i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        all &= good[i];
    }
    figures[0] = (bench_now_ns() - begin) / ROLLBACKS / 1e3;
    pthread_barrier_destroy(&start);
    return all ? 1 : 0;
}

static size_t on_two_threads(double *figures)
{
    return on_threads(2, figures);
}

static size_t on_one_thread(double *figures)
{
    return on_threads(1, figures);
}

#define LARGE(subject)                                                                                                 \
    {                                                                                                                  \
        subject, .program = "stint-bench-roots"                                                                        \
    }

const struct bench bench_roots[] = {
    { .name = "roots.scan",
      .unit = "us",
      .what = "roll a task of 10 blocks back",
      .rounds = 15,
      .no_ratios = true,
      .subjects = { { "stint", .measure = small_heap },
                    { "profiled", .prepare = write_profile, .measure = small_heap },
                    { "no-scan", .prepare = do_not_scan, .measure = small_heap } } },
    { .name = "roots.data",
      .unit = "us",
      .what = "the same in a program with 64 MiB of data",
      .rounds = 6,
      .no_ratios = true,
      .subjects = { LARGE("stint"), LARGE("no-scan") } },
    { .name = "roots.kept",
      .unit = "us",
      .what = "roll a task of 10 blocks back beside blocks of 2,000 that roots have kept",
      .rounds = 6,
      .no_ratios = true,
      .subjects = { { "stint", .prepare = keep_many, .measure = small_heap },
                    { "no-scan", .prepare = keep_many_and_do_not_scan, .measure = small_heap } } },
    { .name = "roots.threads",
      .unit = "us",
      .what = "roll a task of 10 blocks back, on each of two threads",
      .rounds = 15,
      .no_ratios = true,
      .subjects = { { "stint", .measure = on_two_threads },
                    { "one-thread", .measure = on_one_thread },
                    { "no-scan", .prepare = do_not_scan, .measure = on_two_threads } } },
    { .name = "roots.stale",
      .unit = "us",
      .what = "roll 100,000 blocks back with pointers to 100 freed ones left in the data",
      .rounds = 3,
      .no_ratios = true,
      .subjects = { { "stint", .measure = stale_pointers },
                    { "no-scan", .prepare = do_not_scan, .measure = stale_pointers } } },
    { .name = NULL },
};

#endif
