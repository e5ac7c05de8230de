/* SPDX-License-Identifier: MIT
 *
 * The kernel's half of sleeping: wait while a word of memory has a value, wake all who do. A wait may end for no reason:
 * the caller looks again. Any thread. */
#ifndef STI_EXECUTOR_FUTEX_H
#define STI_EXECUTOR_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* deadline: absolute, of CLOCK_MONOTONIC; NULL: none. */
static inline void sti_futex_wait(const void *word, unsigned value, const struct timespec *deadline)
{
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value, deadline, NULL, FUTEX_BITSET_MATCH_ANY);
}

static inline void sti_futex_wake_all(const void *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX);
}

#endif
