/* SPDX-License-Identifier: MIT
 *
 * Blocks that were kept: what a rollback should have taken back, and a root still points to; and those of the task that
 * they point to in turn. From then on they are the process's: whoever takes one from the library that holds it may have
 * its only pointer on a stack or in a block, where no scan looks, so nothing but a free ends one. The rest of the
 * task's blocks go.
 *
 * How much was kept and has not been freed is known: such blocks are watched, and once there is one, free looks at a
 * mark first. Any thread. */
#ifndef STI_ALLOC_HEAP_RETAINED_H
#define STI_ALLOC_HEAP_RETAINED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* So many bytes are about to be kept: they count from now on, and free looks at each block. */
void sti_kept_begin(size_t bytes);

/* A block of these is watched. Without memory for it, it counts for good. */
void sti_kept_watch(uintptr_t block, size_t size);

/* Something was kept of one more heap. */
void sti_kept_count_heap(void);

/* In all that was kept and has not been freed; and of how many heaps something was, so far. */
size_t sti_retained_bytes(void);
uint64_t sti_retained_heaps(void);

#define STI_RETAINED_MARKS ((size_t)1 << 16)

/* Not 0 while a block that falls there is watched. */
extern _Atomic uint8_t sti_retained_marks[STI_RETAINED_MARKS];

/* False: it is not watched. */
static inline bool sti_retained_may_contain(const void *block)
{
    size_t mark = (uintptr_t)block >> 4 & (STI_RETAINED_MARKS - 1);
    return __builtin_expect(atomic_load_explicit(&sti_retained_marks[mark], memory_order_relaxed) != 0, 0);
}

/* It is about to be freed. */
void sti_retained_forget(const void *block);

#endif
