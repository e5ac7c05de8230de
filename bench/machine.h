/* SPDX-License-Identifier: MIT
 *
 * What the machine's primitives cost: rows of their own, and sums of them beside rows whose targets would otherwise be
 * times, which say nothing on another machine. docs/benchmarks.md says why each sum is what it is. One thread, without
 * stint. */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

#include "serve.h"

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

#endif
