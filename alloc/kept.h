/* SPDX-License-Identifier: MIT
 *
 * What a rollback should have taken back, and a root still points into: kept, and looked at again at every later rollback
 * of its thread, until no root does. When its thread has ended, every thread's rollbacks look at it.
 *
 * A kept heap is of use to nobody else. Single blocks of a nursery lie among others' blocks, and may be freed by whoever
 * has a pointer to one, after which they are no business of ours any more. So they are watched: while there are any, free
 * looks at a mark first. Any thread may free; everything else is for the thread whose rollback it is, outside of scopes. */
#ifndef STI_ALLOC_KEPT_H
#define STI_ALLOC_KEPT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sti_heap;
struct sti_thread;

/* These are about to be destroyed: take off the list those that have to be kept, and put onto it those that were kept and need
 * not be any more. Returns the bytes in live blocks of those that are kept from now on. */
size_t sti_kept_look(struct sti_thread *thread, struct sti_heap **list, const char *task);

/* The thread ends, but what has been kept for it may be used until it is gone. */
void sti_kept_end_thread(struct sti_thread *thread);

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
