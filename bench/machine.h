/* SPDX-License-Identifier: MIT
 *
 * What the machine's primitives cost: rows of their own, and sums of them beside rows whose targets would otherwise be
 * times, which say nothing on another machine. docs/benchmarks.md says why each sum is what it is. One thread, without
 * stint. */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

#include "serve.h"

#define MACHINE_PACE_US 2000
#define MACHINE_COPIES 7 /* a measurement: after a pause a process has given memory back, and must have it again */

/* Nanoseconds for a call of a function that does nothing, by a pointer. */
size_t machine_call(double *figures);

/* For a reading of CLOCK_MONOTONIC. */
size_t machine_clock(double *figures);

/* For an atomic addition, sequentially consistent, to a word that nobody else touches. */
size_t machine_locked(double *figures);

/* From a thread that wakes another, and goes on, to the other's first instruction. The sleeper has slept for 5
 * milliseconds, so that its processor has too. */
size_t machine_wake(double *figures);

/* The sums: of what a task needs that is submitted, run elsewhere and awaited, and of two wake-ups. */
size_t machine_submission(double *figures);
size_t machine_two_wakes(double *figures);

/* Microseconds for a round trip between two processes, each of which wakes the other by a futex: one after the other,
 * and each after a pause of MACHINE_PACE_US. */
size_t machine_trip(double *figures);
size_t machine_paced_trip(double *figures);

/* Microseconds for a fork of this process, the end of the child, which does nothing, and the wait for it. */
size_t machine_fork(double *figures);

/* Milliseconds for two copies of 16 MiB: to memory that others see too, and from there to a block that is freed. */
size_t machine_copies(double *figures);
void machine_copies_prepare(unsigned workers);

#endif
