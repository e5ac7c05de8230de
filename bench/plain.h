/* SPDX-License-Identifier: MIT
 *
 * The parts of the programs without stint. */
#ifndef BENCH_PLAIN_H
#define BENCH_PLAIN_H

#include <sys/resource.h>

#include "serve.h"

size_t plain_thread_job(double *figures);
size_t plain_fork_job(double *figures);
size_t plain_fork_bomb(double *figures);

/* The parsing of wall.*, in a process for each order: a fork with a limit, or this program again with PLAIN_PARSE,
 * whose main function plain_parse_main is then. */
#define PLAIN_PARSE "--parse"
void plain_fork_parse_prepare(unsigned workers);
size_t plain_fork_parse(double *figures);
size_t plain_spawn_parse(double *figures);
size_t plain_fork_throughput(double *figures);
int plain_parse_main(void);

/* The address space that the process may have for so many bytes more: RLIMIT_AS counts what it has already. */
rlim_t plain_limit(rlim_t more);

/* The work of fork.*, without forks. */
size_t plain_fib(double *figures);
size_t plain_queens(double *figures);
size_t plain_tree(double *figures);
size_t plain_sort(double *figures);

#endif
