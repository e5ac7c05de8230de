/* SPDX-License-Identifier: MIT
 *
 * How long it takes from a set token to a resolved future, in a pool of two workers: for a task that allocates all the
 * time, and for one in an empty loop, which is preempted. Prints a histogram of each. The setting thread watches the
 * future of the first, and sleeps for the second, as there the thread that preempts needs a processor. What else runs
 * on the machine is in the figures, so those are given again for the cancellations in which none of our threads was
 * made to wait for a processor.
 *
 * usage: cancel [TASKS]   of each kind; 2000 unless given */
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>

#include <stint/stint.h>

#include "measure.h"

#define BUCKETS 20 /* the last: half a second and more */

static atomic_ulong beats; /* of the task that runs */

static int allocate_for_ever(void *arg, void **value)
{
    void *block;
    (void)arg;
    (void)value;
    do {
        block = malloc(100);
        atomic_fetch_add_explicit(&beats, 1, memory_order_relaxed);
        free(block);
    } while (block != NULL);
    return 1;
}

static int loop_for_ever(void *arg, void **value)
{
    (void)arg;
    (void)value;
    while (atomic_fetch_add_explicit(&beats, 1, memory_order_relaxed) < ULONG_MAX)
        ;
    return 1;
}

static void wait_until_it_runs(void)
{
    unsigned long seen = atomic_load_explicit(&beats, memory_order_relaxed);
    while (atomic_load_explicit(&beats, memory_order_relaxed) == seen)
        ;
}

static void wait_ns(double time)
{
    double end = now_ns() + time;
    while (now_ns() < end)
        ;
}

static long times_off_the_processor(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nivcsw;
}

/* Nanoseconds; below 0 if a thread of ours was made to wait meanwhile. */
static double cancel_one(stint_pool *pool, stint_fn *fn, bool preemptible, double after_ns)
{
    stint_options options = STINT_OPTIONS_INIT;
    stint_future *future;
    stint_outcome outcome;
    options.preemptible = preemptible;
    if (stint_token_create(&options.token, NULL) != 0 || stint_submit(pool, fn, NULL, &options, &future) != 0)
        exit(1);
    wait_until_it_runs();
    wait_ns(after_ns);
    long before = times_off_the_processor();
    wait_until_it_runs();
    double begin = now_ns();
    stint_token_set(options.token);
    while (!preemptible && !stint_future_ready(future))
        ;
    stint_future_wait(future, &outcome);
    double time = now_ns() - begin;
    bool disturbed = times_off_the_processor() != before;
    if (outcome.reason != STINT_REASON_TOKEN)
        exit(1);
    stint_future_release(future);
    stint_token_release(options.token);
    return disturbed ? -time : time;
}

static void print_histogram(const double *figures, size_t count)
{
    size_t buckets[BUCKETS] = { 0 };
    size_t most = 0;
    for (size_t i = 0; i < count; i++) {
        size_t bucket = 0;
        while (bucket < BUCKETS - 1 && figures[i] >= 1000.0 * (double)((size_t)1 << bucket))
            bucket++;
        if (++buckets[bucket] > most)
            most = buckets[bucket];
    }
    for (size_t i = 0; i < BUCKETS; i++) {
        if (buckets[i] > 0)
            printf("  < %7zu us  %7zu  %.*s\n", (size_t)1 << i, buckets[i], (int)(buckets[i] * 60 / most),
                   "############################################################");
    }
}

static void print_figures(const char *name, const char *which, double *figures, size_t count)
{
    if (count == 0)
        return;
    double p50 = median(figures, count);
    printf("%-18s %-12s %6zu   p50 %7.1f us   p99 %7.1f us   max %9.1f us\n", name, which, count, p50 / 1e3,
           quantile(figures, count, 0.99) / 1e3, figures[count - 1] / 1e3);
}

static void measure(stint_pool *pool, const char *name, stint_fn *fn, bool preemptible, size_t count)
{
    double *all = malloc(count * sizeof *all);
    double *undisturbed = malloc(count * sizeof *undisturbed);
    size_t undisturbed_count = 0;
    if (all == NULL || undisturbed == NULL)
        exit(1);
    for (size_t i = 0; i < count; i++) {
        double time = cancel_one(pool, fn, preemptible, (double)(i % 100) * 1000);
        all[i] = time < 0 ? -time : time;
        if (time > 0)
            undisturbed[undisturbed_count++] = time;
    }
    print_figures(name, "all", all, count);
    print_histogram(all, count);
    print_figures(name, "undisturbed", undisturbed, undisturbed_count);
    print_histogram(undisturbed, undisturbed_count);
    free(all);
    free(undisturbed);
}

int main(int argc, char **argv)
{
    stint_pool *pool;
    stint_pool_options options = STINT_POOL_OPTIONS_INIT;
    size_t count = argc > 1 ? strtoul(argv[1], NULL, 10) : 2000;
    options.workers = 2;
    if (count < 1 || stint_pool_create(&pool, &options) != 0)
        return 2;
    measure(pool, "cancel.allocating", allocate_for_ever, false, count);
    measure(pool, "cancel.looping", loop_for_ever, true, count);
    return stint_pool_destroy(pool);
}
