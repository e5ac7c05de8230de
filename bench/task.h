/* SPDX-License-Identifier: MIT
 *
 * Running the work of the benchmark in tasks; linked with stint. */
#ifndef BENCH_TASK_H
#define BENCH_TASK_H

#include <stint/stint.h>

#include "serve.h"

/* One measurement of the work, inside a task with limits that it does not reach: of what it allocates and holds, and of
 * time where wall_ns is not 0. Only the work is in the figures, not the task around it. */
size_t bench_in_task(bench_measure_fn *work, uint64_t wall_ns, double *figures);

/* A task that does nothing. */
int bench_empty_task(void *arg, void **value);

/* A task that makes and frees ten small blocks. */
int bench_ten_pairs(void *arg, void **value);

/* The pool of this process, made by bench_prepare_pool. */
extern stint_pool *bench_pool;
void bench_prepare_pool(unsigned workers);

/* Submit to that pool; when it is full, try until it is not. options may be NULL. Ends the process when that fails. */
stint_future *bench_submit(stint_fn *fn, void *arg, const stint_options *options);

/* Wait for it, and let it go. */
void bench_finish(stint_future *future);

#endif
