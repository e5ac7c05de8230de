/* SPDX-License-Identifier: MIT
 *
 * Giving blocks back: which function does; and wiping, one of the reasons for which it may be another. Any thread,
 * unless a function says otherwise. */
#ifndef STI_ALLOC_HEAP_FREE_H
#define STI_ALLOC_HEAP_FREE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* What gives a block back: mimalloc's function, the profiler's while it follows any; and for good, once a task has been
 * wiped or blocks of the nursery had to be kept, the one that looks for all of these. In part of a process (process.h)
 * it is the one for that. */
typedef void sti_free_fn(void *block);
extern _Atomic(sti_free_fn *) sti_free_function __attribute__((visibility("hidden"))); /* as in caller.h */

void sti_free_watched(void *block);

/* A single block of a task that is rolled back. Thread of its heap. */
void sti_free_rolled_back(void *block);

/* Have it be another one, unless it is that one, which stays. Any thread. */
void sti_free_by(sti_free_fn *function);

/* The profiler follows blocks for one more reason, a profile or a task with a rate, by this function; or for one less.
 * Any thread. */
void sti_free_follow(sti_free_fn *function, bool more);

/* In the child of a fork(2), where nobody else runs: for no reason. False: nor was there one ever before. */
bool sti_free_follow_none(void);

/* relaxed: a block that is followed or to be wiped is in the caller's hands after the change. */
static inline __attribute__((always_inline)) void sti_free(void *block)
{
    atomic_load_explicit(&sti_free_function, memory_order_relaxed)(block);
}

/* --- Wiping: what a task with options.wipe wrote into its blocks is zeroed before they can be anybody else's.
 *
 * Its live blocks are when its heap is destroyed (heap.c). Those that are freed before must be at once, since their
 * page may go to another heap. While such a task runs every free of the process zeroes its block, as a block does not
 * tell whose it was, and another thread may free one of the task's. For that the function behind free (free.c) is
 * changed when the first such task begins, and stays changed, so that nobody has to be waited for: processes that never
 * wipe pay nothing, others one load a free. */

/* A task that is to be wiped begins, before it allocates, and has ended, when its memory has been given back or
 * committed. Any thread. */
void sti_wipe_begin(void);
void sti_wipe_end(void);

/* Zero a live block. Its owner's thread. */
void sti_wipe_block(void *block);

/* Does one run now? Any thread. */
bool sti_wipe_is_due(void);

/* In the child of a fork(2). */
void sti_free_in_child(void);

#endif
