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
    bool may_give_up;              /* mimalloc, pages of it while its thread lives: heap.c */
    bool lasts;                    /* mimalloc has given up a page of it, ever: it is not destroyed (retired.h) */
    bool wiped;                    /* when it is destroyed: free.h */
    bool pinned;                   /* whatever roots point to, all of it is kept: roots.h */
    bool is_of_libc;               /* handles: undo.h */
    bool is_mapped;                /* mappings: mapping.h */
    size_t held_before;            /* by blocks in it when it was taken; for libc's alone: kept.h */
    size_t reach;                  /* a pointer further into one is none, and nothing in it could point anywhere; 0: it
                                      is like any other */
    uint64_t given_up_before;      /* pages that mimalloc had given up when it was taken */
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

/* What the calling thread's part of it holds. */
struct sti_backend_size sti_heap_size(const struct sti_heap *heap);

/* Where mimalloc has given up a page since it was taken, but none is left of these, it is as if it were taken now.
 * False: some are left, or that is not known. */
bool sti_heap_renew(struct sti_heap *heap);

/* Bytes in live blocks of a list of heaps that no scope has now, once what others have freed has been taken in. */
size_t sti_heap_list_held(const struct sti_heap *list);

/* Before a limit is called passed: take in what other threads have freed, let go of heaps that have become empty, and
 * find out which young blocks live. */
void sti_heap_measure_exactly(struct sti_thread *thread, struct sti_scope *scope);

/* End a list of heaps. Commit leaves live blocks to the process. Rollback destroys them, but for what a root leads to,
 * which becomes the process's (kept.h). Rollback returns the bytes in blocks that it had to keep. */
void sti_heap_commit(struct sti_thread *thread, struct sti_heap *list);
size_t sti_heap_rollback(struct sti_thread *thread, struct sti_heap *list, const char *task);

/* An inner scope's heaps become the outer one's, and count there with all their pages: returns these bytes. Looks for
 * empty ones whenever there are twice as many as the last time. */
size_t sti_heap_hand_over(struct sti_thread *thread, struct sti_scope *inner, struct sti_scope *outer);

/* It has no live block, and mimalloc has given up no page of it since it was taken: so nobody is about to free one. The
 * heap's thread. */
bool sti_heap_is_empty(const struct sti_heap *heap);

/* mimalloc has given up a page of it since it was taken. The heap's thread. */
bool sti_heap_has_given_up(const struct sti_heap *heap);

/* Of a thread that has ended, or none's: it has no pages any more. Any thread. */
bool sti_heap_is_unused(const struct sti_heap *heap);

/* Such a one is the calling thread's from now on. False: it has pages. */
bool sti_heap_adopt(struct sti_heap *heap);

/* The thread ends: have mimalloc's counts of the heap's pages complete. */
void sti_heap_complete_counts(const struct sti_heap *heap);

/* Drop the heaps without a live block from a list and return the rest. */
struct sti_heap *sti_heap_drop_empty(struct sti_thread *thread, struct sti_heap *list);

/* Live blocks are gone, and so is the heap, or it is another thread's to use; for those who list heaps. The heap's
 * thread. */
void sti_heap_end(struct sti_heap *heap);

/* Give up what the thread keeps for its next tasks, as far as no open scope needs it. 20 µs and more. */
void sti_heap_give_back(struct sti_thread *thread);

/* The thread ends: give up all its heaps. mimalloc is still there. */
void sti_heap_end_thread(struct sti_thread *thread);

/* At start. */
void sti_heap_start(void);

#endif
