/* SPDX-License-Identifier: MIT
 *
 * What a rollback should have taken back, and a root still points to: such blocks, and those of the task that they point
 * to in turn, stay. From then on they are the process's: whoever takes one from the library that holds it may have its
 * only pointer on a stack or in a block, where no scan looks, so nothing but a free ends one. The rest of the task's
 * blocks go.
 *
 * How much was kept and has not been freed is known: such blocks are watched, and once there is one, free looks at a mark
 * first. Any thread may free; what is kept is for the thread whose rollback it is, outside of scopes. */
#ifndef STI_ALLOC_KEPT_H
#define STI_ALLOC_KEPT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sti_heap;
struct sti_thread;

/* These are about to be destroyed: take off the list those in which something has to be kept, and end them. Returns the
 * bytes in blocks that are kept. */
size_t sti_kept_look(struct sti_thread *thread, struct sti_heap **list, const char *task);

/* In all that was kept and has not been freed. Any thread. */
size_t sti_kept_bytes(void);

#define STI_KEPT_MARKS ((size_t)1 << 16)

/* Not 0 while a block that falls there is watched. */
extern _Atomic uint8_t sti_kept_marks[STI_KEPT_MARKS];

/* False: it is not watched. */
static inline bool sti_kept_may_contain(const void *block)
{
    size_t mark = (uintptr_t)block >> 4 & (STI_KEPT_MARKS - 1);
    return __builtin_expect(atomic_load_explicit(&sti_kept_marks[mark], memory_order_relaxed) != 0, 0);
}

/* It is about to be freed. Any thread. */
void sti_kept_forget(const void *block);

#endif
