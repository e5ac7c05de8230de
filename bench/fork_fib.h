/* SPDX-License-Identifier: MIT
 *
 * How many forks Fibonacci numbers take, and the size of fork.typed, the same for every system. */
#ifndef BENCH_FORK_FIB_H
#define BENCH_FORK_FIB_H

#include <stdint.h>

#define FORK_TYPED 32
#define FORK_TYPED_RESULT 2178309

/* Each call with n > 1 forks once: fib(n + 1) - 1 times in all. */
static inline uint64_t fork_fib_forks(uint64_t n)
{
    uint64_t last = 0;
    uint64_t next = 1;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t sum = last + next;
        last = next;
        next = sum;
    }
    return next - 1;
}

#endif
