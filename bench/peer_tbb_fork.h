/* SPDX-License-Identifier: MIT
 *
 * The work of fork.* by oneTBB. */
#ifndef BENCH_PEER_TBB_FORK_H
#define BENCH_PEER_TBB_FORK_H

#include "serve.h"

void tbb_fork_prepare(unsigned workers);
size_t tbb_fork_fib(double *figures);
size_t tbb_fork_queens(double *figures);
size_t tbb_fork_tree(double *figures);
size_t tbb_fork_sort(double *figures);

#endif
