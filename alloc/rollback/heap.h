/* SPDX-License-Identifier: MIT
 *
 * Heaps of tasks: made, committed, rolled back, and retired while they have live blocks. Each function says its
 * thread. */
#ifndef STI_ALLOC_ROLLBACK_HEAP_H
#define STI_ALLOC_ROLLBACK_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/base/backend.h"
#include "heap_map.h"

/* --- Task heaps: taken when a scope outgrows the nursery (nursery.h), measured, and ended by commit or rollback. All
 * on the thread that runs the scope.
 *
 * A mimalloc heap costs 1 to 3 µs, 10 with its first block, and as much again when it is destroyed. So a heap whose
 * task has left nothing is kept warm for the thread's next one; and one with live blocks of a task that ended Ok is
 * retired until others have freed those (below). */

struct sti_scope;
struct sti_thread;

#define STI_HEAP_TASK_NAME 32

/* A heap, or what a scope left in its thread's nursery: single blocks. */
struct sti_heap {
    sti_backend_heap *backend;     /* NULL: single blocks */
    sti_backend_theap *theap;      /* the calling thread's part of it, since it was taken */
    struct sti_heap *next;         /* on a list: of a scope, of a thread's retired ones */
    bool is_nursery;               /* it keeps all of its full pages that it can: backend.h */
    bool given_up;                 /* it is retired, and mimalloc has given up a page of it: heap.h */
    bool wiped;                    /* when it is destroyed: free.h */
    bool pinned;                   /* whatever roots point to, all of it is kept: roots.h */
    bool is_of_libc;               /* handles: handle.h */
    bool is_mapped;                /* mappings: mapping.h; */
    bool is_opaque;                /* there is nothing in them that could point anywhere */
    uint64_t left;                 /* when a retired one was first seen without a page; 0: it was not */
    char task[STI_HEAP_TASK_NAME]; /* that it was rolled back with; in debug mode only */
    struct sti_heap_map map;       /* for the scan of roots */
    size_t count;                  /* of single blocks */
    struct sti_single {
        void *block;
        size_t size;
    } singles[];
};

/* A warm heap, a retired one that has become empty, or a new one. NULL: out of memory. */
struct sti_heap *sti_heap_take(struct sti_thread *thread);

/* The same for a nursery: one that was made for one. */
struct sti_heap *sti_heap_take_for_nursery(struct sti_thread *thread);

/* The heap that the scope's next block comes from; NULL: it is young, or has not allocated. */
struct sti_heap *sti_heap_own(const struct sti_scope *scope);

/* Bytes that a scope's heaps and its blocks in the nursery hold. Its own heap's live blocks; of heaps that inner scopes
 * have left to it the pages, as nobody else can have those; of young blocks what was allocated, be it freed. Never too
 * few. */
size_t sti_heap_held(const struct sti_scope *scope);

/* What the last scan of roots found in it. */
static inline size_t sti_heap_kept(const struct sti_heap *heap)
{
    return heap->pinned ? heap->map.held : heap->map.marked_bytes;
}

/* In live blocks of a heap, or in single ones. Reads only. */
size_t sti_heap_bytes(const struct sti_heap *heap);

/* Bytes in live blocks of a list of heaps that no scope has now, once what others have freed has been taken in. */
size_t sti_heap_list_held(const struct sti_heap *list);

/* Before a limit is called passed: take in what other threads have freed, let go of heaps that have become empty, and
 * find out which young blocks live. */
void sti_heap_measure_exactly(struct sti_thread *thread, struct sti_scope *scope);

/* End a list of heaps. Commit leaves live blocks to the process. Rollback destroys them, but for what a root leads to,
 * which becomes the process's (kept.h); scanned: it is known already that none does. Rollback returns the bytes in
 * blocks that it had to keep. */
void sti_heap_commit(struct sti_thread *thread, struct sti_heap *list);
size_t sti_heap_rollback(struct sti_thread *thread, struct sti_heap *list, const char *task, bool scanned);

/* An inner scope's heaps become the outer one's. Looks for empty ones whenever there are twice as many as the last
 * time. */
void sti_heap_hand_over(struct sti_thread *thread, struct sti_scope *inner, struct sti_scope *outer);

/* It has no live block, and nobody is about to free a page of it. */
bool sti_heap_is_empty(const struct sti_heap *heap);

/* It has pages that are not the thread's any more, but whoever frees in them next. */
bool sti_heap_has_given_up(const struct sti_heap *heap);

/* Drop the heaps without a live block from a list and return the rest. */
struct sti_heap *sti_heap_drop_empty(struct sti_thread *thread, struct sti_heap *list);

/* Live blocks are gone; for those who list heaps. */
void sti_heap_destroy(struct sti_heap *heap);

/* Give up what the thread keeps for its next tasks, as far as no open scope needs it. 20 µs and more. */
void sti_heap_give_back(struct sti_thread *thread);

/* The thread ends: give up all its heaps. mimalloc is still there. */
void sti_heap_end_thread(struct sti_thread *thread);

/* --- Retired heaps: of tasks that ended Ok and left live blocks there, and nurseries that are full. Each waits on its
 * thread until others have freed all of those, and is used again then; in the end on a list of the process's. Thread of
 * the heaps only.
 *
 * None is deleted with blocks in it (mi_heap_delete), which would give them and their pages to the process:
 * mimalloc 3.6 gives up each page to whoever frees in it next, and then moves it as if nobody had. A stretch of some
 * instructions on the other thread is enough to have two own a page.
 *
 * For the same reason a heap is empty only when no page is left of those that mimalloc has given up: the last block of
 * one is gone before the page is, and whoever has freed it still works there. And since he has a last look at the
 * heap's record when the page has gone, such a heap is not used again at once but 100 ms later. What he does in between
 * may be a munmap, and he may have to wait for a processor: 10 ms are not enough (test-scattered_long, four at once on
 * two processors, crashed in 4 of 12 runs; with 100 in none of 89). It takes memory, 100 KiB for each heap that waits:
 * a loop of 9,000 tasks a second, each of which leaves 400 KB that are freed at once, has 90 MiB of them. */

struct sti_heap;

/* Nobody's any more, with live blocks in it or not. */
void sti_retired_put(struct sti_thread *thread, struct sti_heap *heap);

/* One that has become empty. NULL: none among the few that were looked at; the next time it is the next ones' turn. */
struct sti_heap *sti_retired_take(struct sti_thread *thread, bool is_nursery);

/* End those that have become empty, and give up the free pages of the others. */
void sti_retired_give_back(struct sti_thread *thread);

/* The thread ends: what is left goes to the process's list. */
void sti_retired_end_thread(struct sti_thread *thread);

#endif
