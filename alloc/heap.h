/* SPDX-License-Identifier: MIT
 *
 * Task heaps: taken when a scope first allocates, measured, and given back by commit or rollback. All on the thread that
 * runs the scope. */
#ifndef STI_ALLOC_HEAP_H
#define STI_ALLOC_HEAP_H

#include <stdbool.h>
#include <stddef.h>

#include "backend.h"
#include "heap_map.h"

struct sti_thread;

struct sti_heap {
    sti_backend_heap *backend;
    struct sti_heap *next;   /* on a list: of a scope, or of the heaps that a thread keeps */
    bool wiped;              /* when it is destroyed: wipe.h */
    bool pinned;             /* by a root: roots.h */
    struct sti_heap_map map; /* for the scan of roots; a heap that is kept keeps it */
};

/* The thread's warm heap, or a new one. NULL: out of memory. */
struct sti_heap *sti_heap_take(struct sti_thread *thread);

/* Bytes in live blocks of a list of heaps. Never too few; exact when no other thread frees blocks of theirs. */
size_t sti_heap_held(const struct sti_heap *list);

/* Take in what other threads have freed, for the whole list. */
void sti_heap_collect(const struct sti_heap *list);

/* End a list of heaps. Commit moves live blocks to the process's heap. Rollback destroys them, unless a root points into
 * their heap: such a heap the thread keeps until a later rollback finds it free of roots. A heap without a live block is
 * kept warm for the thread's next scope. Rollback returns the bytes in live blocks of the heaps that it had to keep. */
void sti_heap_commit(struct sti_thread *thread, struct sti_heap *list);
size_t sti_heap_rollback(struct sti_thread *thread, struct sti_heap *list, const char *task);

/* Drop the heaps without a live block from a list and return the rest. */
struct sti_heap *sti_heap_drop_empty(struct sti_thread *thread, struct sti_heap *list);

/* The thread ends: give up its warm heap and those it keeps. mimalloc is still there. */
void sti_heap_end_thread(struct sti_thread *thread);

#endif
