/* SPDX-License-Identifier: MIT
 *
 * Heaps of tasks: made, handed on, committed and ended. Each function says its thread. */
#ifndef STI_ALLOC_HEAP_HEAP_H
#define STI_ALLOC_HEAP_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/platform/backend.h"
#include "heap_map.h"

/* --- Task heaps: taken when a scope outgrows the nursery (nursery.h), measured (held.h), and ended by commit or
 * rollback (rollback.h). All on the thread that runs the scope.
 *
 * A mimalloc heap costs 1 to 3 µs, 10 with its first block, and as much again when it is destroyed. So a heap whose
 * task has left nothing is kept warm for the thread's next one; and one with live blocks of a task that ended Ok is
 * retired until others have freed those (retired.h). */

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
    size_t held_before;            /* by blocks in it when it was taken; for libc's alone: libc_heap.h */
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

/* A heap that the thread has kept is used again: mimalloc may have ended the thread, and its part of the heap with
 * it. */
void sti_heap_find_part(struct sti_heap *heap);

/* The heap that the scope's next block comes from; NULL: it is young, or has not allocated. */
struct sti_heap *sti_heap_own(const struct sti_scope *scope);

/* What the last scan of roots found in it. */
static inline size_t sti_heap_retained(const struct sti_heap *heap)
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

/* Leave the live blocks of a list of heaps to the process. */
void sti_heap_commit(struct sti_thread *thread, struct sti_heap *list);

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

/* It is destroyed as it is when it ends. False: its live blocks are freed one by one. The heap's thread. */
bool sti_heap_is_destroyed_whole(const struct sti_heap *heap);

/* Live blocks are gone, and so is the heap, or it is another thread's to use; for those who list heaps. The heap's
 * thread. */
void sti_heap_end(struct sti_heap *heap);

/* What was written into its live blocks is zeroed, if it is to be. */
void sti_heap_wipe(struct sti_heap *heap);

/* Give up the thread's warm heap. */
void sti_heap_give_warm_back(struct sti_thread *thread);

/* At start. */
void sti_heap_start(void);

#endif
