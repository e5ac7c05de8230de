/* SPDX-License-Identifier: MIT
 *
 * A plugin that needs OpenMP: so its runtime is loaded with it, when the program has long started. */
#include <omp.h>

int sum_in_parallel(int threads);

/* 1 + 2 + ... + threads */
int sum_in_parallel(int threads)
{
    int sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum)
    sum += omp_get_thread_num() + 1;
    return sum;
}
