/* SPDX-License-Identifier: MIT
 *
 * Wiping: what a task with options.wipe wrote into its blocks is zeroed before they can be anybody else's.
 *
 * Its live blocks are when its heap is destroyed (heap.c). Those that are freed before must be at once, since their page
 * may go to another heap. While such a task runs every free of the process zeroes its block, as a block does not tell
 * whose it was, and another thread may free one of the task's. For that the function behind free (malloc.c) is changed when the
 * first such task begins, and stays changed, so that nobody has to be waited for: processes that never wipe pay nothing,
 * others one load a free. */
#ifndef STI_ALLOC_WIPE_H
#define STI_ALLOC_WIPE_H

#include <stdbool.h>
#include <stddef.h>

/* A task that is to be wiped begins, before it allocates, and has ended, when its memory has been given back or committed.
 * Any thread. */
void sti_wipe_begin(void);
void sti_wipe_end(void);

/* Zero a live block. Who holds it. */
void sti_wipe_block(void *block);

/* Does one run now? Any thread. */
bool sti_wipe_is_due(void);

/* realloc of a block that has to move, while one runs. Calling thread. */
void *sti_wipe_reallocate(void *block, size_t size, const void *caller);

#endif
