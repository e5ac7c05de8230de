/* SPDX-License-Identifier: MIT
 *
 * The parts of the programs without stint. */
#ifndef BENCH_PLAIN_H
#define BENCH_PLAIN_H

#include "serve.h"

size_t plain_thread_job(double *figures);
size_t plain_fork_job(double *figures);
size_t plain_fork_bomb(double *figures);

/* The work of fork.*, without forks. */
size_t plain_fib(double *figures);
size_t plain_queens(double *figures);
size_t plain_tree(double *figures);
size_t plain_sort(double *figures);

#endif
