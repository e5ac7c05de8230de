/* SPDX-License-Identifier: MIT
 *
 * mimalloc: the one file that includes mimalloc.h and hides how its versions differ (2.0.9 in Debian 12, 3.0.1 in
 * Debian 13, 3.6 in unstable). Blocks of the process come from mimalloc's own default heap of the calling thread, which
 * this library never changes. A task heap may be allocated from, walked, deleted and destroyed only by the thread that
 * made it; any thread may free a block. */
#ifndef STI_ALLOC_BACKEND_H
#define STI_ALLOC_BACKEND_H

#include <mimalloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The version macro changed its digits on the way: 209, 227, 301, 316, 3012, 3206, 20302, 30403. */
#if MI_MALLOC_VERSION < 200
#error "stint needs mimalloc 2.0.9 or later"
#endif

/* 3.0 and 3.1: what a deleted heap holds is abandoned at once, for any heap with its tag to adopt. */
#define STI_BACKEND_ABANDONS                                                                                           \
    ((MI_MALLOC_VERSION >= 300 && MI_MALLOC_VERSION < 320) || (MI_MALLOC_VERSION >= 3000 && MI_MALLOC_VERSION < 3200))

/* May a heap that needs pages adopt abandoned ones, though it may be destroyed? */
#define STI_BACKEND_ADOPTS                                                                                             \
    (MI_MALLOC_VERSION < 300 || (MI_MALLOC_VERSION >= 20000 && MI_MALLOC_VERSION < 30000) || STI_BACKEND_ABANDONS)

typedef mi_heap_t sti_backend_heap;

static inline sti_backend_heap *sti_backend_heap_new(void)
{
#if STI_BACKEND_ABANDONS
    return mi_heap_new_ex(1, true,
                          0); /* a tag of its own: threads abandon full pages of the process's heap all the time */
#else
    return mi_heap_new();
#endif
}

/* Live blocks move to the process's heap. So would pages without one, where nobody would look for them: collect first. */
static inline void sti_backend_heap_commit(sti_backend_heap *heap)
{
    mi_heap_collect(heap, false);
    mi_heap_delete(heap);
}

/* Take in what other threads have freed of the calling thread's part of the process's heap; give all that is free back to
 * the system. */
static inline void sti_backend_process_collect(bool give_back)
{
    mi_collect(give_back);
}

/* Live blocks are gone. */
static inline void sti_backend_heap_destroy(sti_backend_heap *heap)
{
    mi_heap_destroy(heap);
}

/* Take in what other threads have freed. */
static inline void sti_backend_heap_collect(sti_backend_heap *heap)
{
    mi_heap_collect(heap, false);
}

static inline bool sti_backend_add_area(const mi_heap_t *heap, const mi_heap_area_t *area, void *block,
                                        size_t block_size, void *sum)
{
    (void)heap;
    (void)block;
    (void)block_size;
    *(size_t *)sum += area->used * area->full_block_size;
    return true;
}

/* Bytes in live blocks, each counted with what its size class rounds it up to. Blocks that another thread has freed may
 * still be counted until the heap's next collection: never too few. */
static inline size_t sti_backend_heap_held(sti_backend_heap *heap)
{
    size_t sum = 0;
    mi_heap_visit_blocks(heap, false, sti_backend_add_area, &sum);
    return sum;
}

static inline bool sti_backend_add_committed(const mi_heap_t *heap, const mi_heap_area_t *area, void *block,
                                             size_t block_size, void *sum)
{
    (void)heap;
    (void)block;
    (void)block_size;
    *(size_t *)sum += area->committed;
    return true;
}

/* Bytes of the heap's pages. */
static inline size_t sti_backend_heap_committed(sti_backend_heap *heap)
{
    size_t sum = 0;
    mi_heap_visit_blocks(heap, false, sti_backend_add_committed, &sum);
    return sum;
}

/* The address ranges with live blocks of the heap, each of blocks of one size. */
typedef void sti_backend_area_fn(uintptr_t begin, uintptr_t end, size_t block_size, void *arg);

struct sti_backend_area_visit {
    sti_backend_area_fn *visit;
    void *arg;
};

static inline bool sti_backend_visit_area(const mi_heap_t *heap, const mi_heap_area_t *area, void *block,
                                          size_t block_size, void *visit)
{
    (void)heap;
    (void)block;
    (void)block_size;
    const struct sti_backend_area_visit *areas = visit;
    if (area->used > 0)
        areas->visit((uintptr_t)area->blocks, (uintptr_t)area->blocks + area->committed, area->full_block_size,
                     areas->arg);
    return true;
}

static inline void sti_backend_heap_areas(sti_backend_heap *heap, sti_backend_area_fn *visit, void *arg)
{
    struct sti_backend_area_visit areas = { .visit = visit, .arg = arg };
    mi_heap_visit_blocks(heap, false, sti_backend_visit_area, &areas);
}

/* The heap's live blocks, each with the beginning of its page. */
typedef void sti_backend_block_fn(void *block, uintptr_t page, void *arg);

struct sti_backend_block_visit {
    sti_backend_block_fn *visit;
    void *arg;
};

static inline bool sti_backend_visit_block(const mi_heap_t *heap, const mi_heap_area_t *area, void *block,
                                           size_t block_size, void *visit)
{
    (void)heap;
    (void)block_size;
    const struct sti_backend_block_visit *blocks = visit;
    if (block != NULL)
        blocks->visit(block, (uintptr_t)area->blocks, blocks->arg);
    return true;
}

static inline void sti_backend_heap_blocks(sti_backend_heap *heap, sti_backend_block_fn *visit, void *arg)
{
    struct sti_backend_block_visit blocks = { .visit = visit, .arg = arg };
    mi_heap_visit_blocks(heap, true, sti_backend_visit_block, &blocks);
}

/* Does what this page holds count? */
typedef bool sti_backend_page_fn(uintptr_t page);

struct sti_backend_count {
    sti_backend_page_fn *counts;
    size_t sum;
};

static inline bool sti_backend_add_counted_area(const mi_heap_t *heap, const mi_heap_area_t *area, void *block,
                                                size_t block_size, void *count)
{
    (void)heap;
    (void)block;
    (void)block_size;
    struct sti_backend_count *counted = count;
    if (area->used > 0 && counted->counts((uintptr_t)area->blocks))
        counted->sum += area->used * area->full_block_size;
    return true;
}

/* As sti_backend_heap_held, of the pages that count. */
static inline size_t sti_backend_heap_held_in(sti_backend_heap *heap, sti_backend_page_fn *counts)
{
    struct sti_backend_count count = { .counts = counts, .sum = 0 };
    mi_heap_visit_blocks(heap, false, sti_backend_add_counted_area, &count);
    return count.sum;
}

/* The calling thread's part of the process's heap; where heaps adopt pages. */
static inline sti_backend_heap *sti_backend_thread_heap(void)
{
#if STI_BACKEND_ADOPTS
    return mi_heap_get_backing();
#else
    return NULL;
#endif
}

static inline void *sti_backend_heap_malloc(sti_backend_heap *heap, size_t size)
{
    return mi_heap_malloc(heap, size);
}

/* The sizes of blocks that the next function makes; it has the shortest way to one. */
#define STI_BACKEND_SMALL ((size_t)MI_SMALL_SIZE_MAX)

static inline void *sti_backend_heap_malloc_small(sti_backend_heap *heap, size_t size)
{
    return mi_heap_malloc_small(heap, size);
}

static inline void *sti_backend_heap_zalloc(sti_backend_heap *heap, size_t size)
{
    return mi_heap_zalloc(heap, size);
}

static inline void *sti_backend_heap_realloc(sti_backend_heap *heap, void *block, size_t size)
{
    return mi_heap_realloc(heap, block, size);
}

static inline void *sti_backend_heap_aligned(sti_backend_heap *heap, size_t alignment, size_t size)
{
    return mi_heap_malloc_aligned(heap, size, alignment);
}

static inline void *sti_backend_malloc(size_t size)
{
    return mi_malloc(size);
}

static inline void *sti_backend_zalloc(size_t size)
{
    return mi_zalloc(size);
}

static inline void *sti_backend_realloc(void *block, size_t size)
{
    return mi_realloc(block, size);
}

static inline void *sti_backend_aligned(size_t alignment, size_t size)
{
    return mi_malloc_aligned(size, alignment);
}

#define STI_BACKEND_FREE mi_free

static inline void sti_backend_free(void *block)
{
    mi_free(block);
}

static inline size_t sti_backend_usable_size(const void *block)
{
    return mi_usable_size(block);
}

/* What a block of this size will hold once made, at most. mi_good_size does not tell it for large ones: they get whole
 * slices, and from 8 MiB on what the system is asked for is rounded too. */
static inline size_t sti_backend_block_size(size_t size)
{
    const size_t kib = 1024;
    if (size <= 128 * kib)
        return mi_good_size(size);
    size_t whole = size <= 512 * kib     ? 64 * kib
                   : size <= 8192 * kib  ? 512 * kib
                   : size <= 32768 * kib ? 1024 * kib
                                         : 4096 * kib;
    return (size + whole - 1) / whole * whole;
}

/* mimalloc keeps a thread-specific value of its own; it has to be set before a scope starts to undo such values. */
static inline void sti_backend_thread_init(void)
{
    mi_thread_init();
}

/* What mimalloc cannot do is told to one function, with an errno value, on the thread that asked. */
static inline void sti_backend_on_error(void (*heard)(int error, void *unused))
{
    mi_register_error(heard, NULL);
}

/* mimalloc calls a function, on the allocating thread, whenever it leaves its own fast path: at the latest when a page of
 * 64 KiB has no free block left. It may allocate. Forced ones come with a collection. NULL: none. */
static inline void sti_backend_on_heartbeat(void (*beat)(bool force, unsigned long long count, void *unused))
{
    mi_register_deferred_free(beat, NULL);
}

/* An address in mimalloc's module. */
static inline const void *sti_backend_address(void)
{
    return (const void *)(uintptr_t)mi_version;
}

static inline int sti_backend_version(void)
{
    return mi_version();
}

#endif
