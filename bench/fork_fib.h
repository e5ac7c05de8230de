/* SPDX-License-Identifier: MIT
 *
 * The size of fork.typed, the same for every system. */
#ifndef BENCH_FORK_FIB_H
#define BENCH_FORK_FIB_H

#define FORK_FIB 32
#define FORK_FIB_RESULT 2178309

/* Each call with n > 1 forks once: fib(n + 1) - 1 times in all. */
static inline double fork_fib_forks(int n)
{
    double last = 0;
    double next = 1;
    for (int i = 0; i < n; i++) {
        double sum = last + next;
        last = next;
        next = sum;
    }
    return next - 1;
}

#endif
