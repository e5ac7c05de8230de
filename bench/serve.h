/* SPDX-License-Identifier: MIT
 *
 * What every program of the benchmark shares, stint-bench and its peers: one subject of one bench, measured whenever
 * the harness asks. Each subject runs in a process of its own, so that each has its own allocator and none disturbs
 * another. One thread. */
#ifndef BENCH_SERVE_H
#define BENCH_SERVE_H

#include <stddef.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BENCH_FIGURES_MAX 256 /* of one measurement */

/* One measurement: fills in figures and returns how many they are; 0: it failed. */
typedef size_t bench_measure_fn(double *figures);

/* Once, before the first measurement. workers is at least 1. */
typedef void bench_prepare_fn(unsigned workers);

struct bench_work {
    const char *bench;
    const char *subject;
    bench_prepare_fn *prepare; /* may be NULL */
    bench_measure_fn *measure;
};

/* The main function of a peer's program: PROGRAM --serve BENCH SUBJECT WORKERS. works ends with a bench of NULL.
 * Answers each byte of standard input with a measurement on standard output: its number of figures, and the figures.
 * Returns the exit status. */
int bench_serve_main(const struct bench_work *works, int argc, char **argv);

/* The same for one work. */
int bench_serve(const struct bench_work *work, unsigned workers);

/* The cost of something short on one thread: calls slice again and again, each call making so many operations, and
 * returns the median of nanoseconds an operation. A slice should take about 50 microseconds: then most are not
 * disturbed. */
#define BENCH_SLICES 24
double bench_slices(void (*slice)(void *arg), void *arg, size_t operations);

static inline double bench_clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static inline double bench_now_ns(void)
{
    return bench_clock_ns(CLOCK_MONOTONIC);
}

/* Processor time of this thread, for work that waits for nobody: others who use the machine hardly show in it. */
static inline double bench_thread_ns(void)
{
    return bench_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* The same of all threads of the process, where more want to run than there are processors. */
static inline double bench_process_ns(void)
{
    return bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

/* Work that takes so much of it. */
static inline void bench_spin(double ns)
{
    double end = bench_thread_ns() + ns;
    while (bench_thread_ns() < end)
        ;
}

/* A measurement of idle.cpu: the processor time, in hundredths of a processor, that this process takes in a second. */
size_t bench_idle(double *figures);

#ifdef __cplusplus
}
#endif

#endif
