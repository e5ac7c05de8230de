/* SPDX-License-Identifier: MIT
 *
 * Orphans: the pages with live blocks that ended threads have left behind.
 *
 * When a thread ends, mimalloc abandons its pages, and any heap that needs pages may adopt them: in 2.x a task's heap
 * too. To destroy that heap would destroy the dead thread's blocks. So what a thread leaves is noted as it ends (mimalloc
 * is made to tell, in override_key.c), by where a page begins. A task's heap does not count an adopted page as its own,
 * and is not destroyed while it has one: its other blocks are freed one by one, and the rest moves to the process's heap.
 * A task's own blocks in such a page stay allocated then: a page at most, and once a page, as it is no orphan any more.
 * An orphan that a living thread's process heap adopted and emptied is noted in vain; the price is the same.
 *
 * In mimalloc 3.0 and 3.1 a task's heap adopts only what another task's heap has left behind, but a commit already leaves
 * its pages behind: so there it is each commit that is noted, and a rollback may leave a page's blocks allocated.
 *
 * Any thread. In programs whose threads leave nothing behind: one load. */
#ifndef STI_ALLOC_ORPHANS_H
#define STI_ALLOC_ORPHANS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend.h"

extern atomic_size_t sti_orphans_count;

static inline bool sti_orphans_any(void)
{
    /* relaxed: a heap can have adopted a page only after mimalloc's own hand-over of it, which orders this. */
    return atomic_load_explicit(&sti_orphans_count, memory_order_relaxed) > 0;
}

bool sti_orphans_contain(uintptr_t page);

/* The calling thread is ending; these are the pages of its heap. */
void sti_orphans_note(sti_backend_heap *heap);

/* The pages of this heap have a living owner again. */
void sti_orphans_forget(sti_backend_heap *heap);

/* Nobody tells which pages are orphans: from now on any may be one, and nothing is destroyed any more. */
void sti_orphans_assume_all(void);

#endif
