/* SPDX-License-Identifier: MIT
 *
 * mimalloc 3.3 or later: the one file that includes mimalloc.h. Any thread, unless a function says otherwise.
 *
 * A heap has pages of its own. Each thread that allocates from it has a part of it, its theap, which finds a block
 * faster than the heap could; it lives until the heap or its thread ends. Any thread may free a block. A heap of
 * which mimalloc has given up no page may be destroyed by any thread. Walked is a thread's part of it, by that thread:
 * what a thread frees of its own pages is not synchronised; and a page that mimalloc has given up is anybody's. Blocks
 * of the process come from mimalloc's main heap, which this library never changes. */
#ifndef STI_ALLOC_PLATFORM_BACKEND_H
#define STI_ALLOC_PLATFORM_BACKEND_H

#include <mimalloc-stats.h>
#include <mimalloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "instrumentation.h"

/* Five digits from 3.3 on; the macro had three and four before. */
#if MI_MALLOC_VERSION < 30300
#error "stint needs mimalloc 3.3 or later"
#endif

typedef mi_heap_t sti_backend_heap;
typedef mi_theap_t sti_backend_theap;

/* The calling thread's part of it. */
static inline sti_backend_theap *sti_backend_heap_theap(sti_backend_heap *heap)
{
    return mi_heap_theap(heap);
}

/* mimalloc may give up a page whose blocks are all in use, to the thread that first frees one of them. While somebody
 * does, a walk of that page's blocks, or its move to another heap, would take the page from under him, or he from under
 * it: none of this is locked. So the library's heaps give up none while their thread lives: full pages are put aside,
 * and mimalloc does not pass them either when it looks for one with room. What other threads free there, their thread
 * takes in when it measures, collects or gives back. */
#define STI_BACKEND_NONE_GIVEN_UP (-1)

/* No block up to this size has a page to itself, in which there is a good fit for it alone. */
#define STI_BACKEND_SHARED_PAGE ((size_t)80 << 10)

/* mimalloc takes memory from the system in arenas, and a heap with a page in one has a record of 11 bytes for each 64
 * KiB of all of it. With mimalloc's default of 1 GiB for an arena the record takes 180 KiB, half of the memory that
 * making a heap costs. In KiB; later arenas are larger. */
#define STI_BACKEND_ARENA (128L << 10)
#define STI_BACKEND_ARENA_UNASKED (1024L << 10)

/* For the whole process, before there is a heap. */
static inline void sti_backend_prepare(void)
{
    if (mi_option_get(mi_option_arena_reserve) == STI_BACKEND_ARENA_UNASKED)
        mi_option_set(mi_option_arena_reserve, STI_BACKEND_ARENA);
}

/* The calling thread's part of the heap, or of a new one where that is NULL. Whether a part gives up full pages is an
 * option of the process's, read when the part is made: so one at a time. A part that somebody makes meanwhile of
 * another heap, outside of this library, gives up none either: then what others free in its full pages waits until its
 * thread collects. A thread that mimalloc has ended
 * begins anew here: 3.7 would give it a part without memory. Returns the heap; NULL: out of memory. */
static inline sti_backend_heap *sti_backend_heap_begin(sti_backend_heap *heap)
{
    long retained = mi_option_get(mi_option_page_full_retain);
    mi_option_set(mi_option_page_full_retain, STI_BACKEND_NONE_GIVEN_UP);
    mi_thread_init();
    if (heap == NULL)
        heap = mi_heap_new();
    if (heap != NULL)
        mi_heap_theap(heap);
    mi_option_set(mi_option_page_full_retain, retained);
    return heap;
}

#ifdef STI_TSAN
static inline bool sti_backend_area_gone(const mi_heap_t *heap, const mi_heap_area_t *area, void *block,
                                         size_t block_size, void *unused)
{
    (void)heap;
    (void)block;
    (void)block_size;
    (void)unused;
    sti_tsan_given_back(area->blocks, area->reserved);
    return true;
}
#endif

/* Live blocks are gone. */
static inline void sti_backend_heap_destroy(sti_backend_heap *heap)
{
#ifdef STI_TSAN
    mi_heap_visit_blocks(heap, false, sti_backend_area_gone, NULL);
#endif
    mi_heap_destroy(heap);
}

/* The smallest page. */
#define STI_BACKEND_SLICE ((size_t)64 << 10)

/* The bundled 3.4.3, and what is older, passes over full pages unless it gives free ones back; 3.5.3 does not. */
#define STI_BACKEND_COLLECTS_FULL_PAGES (MI_MALLOC_VERSION >= 30503)

/* Take in what other threads have freed of the calling thread's part; then give its free pages back, too. */
static inline void sti_backend_theap_collect(sti_backend_theap *theap, bool give_back)
{
    mi_theap_collect(theap, give_back || !STI_BACKEND_COLLECTS_FULL_PAGES);
}

/* Collect the calling thread's part of the process's heap in the same way. */
static inline void sti_backend_thread_collect(void)
{
    mi_theap_collect(mi_theap_get_default(), true);
}

/* The same; and the free pages of all heaps go back to the system then, at once: each by itself. Unless it is told
 * otherwise, mimalloc gives 2 MiB back or nothing, where the system has pages of that size, and the smallest thing that
 * lives among many freed heaps keeps so much. One thread at a time: process.c. */
static inline void sti_backend_process_collect(void)
{
    bool is_unasked = mi_option_get(mi_option_minimal_purge_size) == 0;
    if (is_unasked)
        mi_option_set(mi_option_minimal_purge_size, (long)(STI_BACKEND_SLICE >> 10));
    mi_collect(true);
    if (is_unasked)
        mi_option_set(mi_option_minimal_purge_size, 0);
}

/* What the pages of a heap hold. */
struct sti_backend_size {
    size_t held;   /* bytes in live blocks, each counted with what its size class makes of it */
    size_t pages;  /* bytes of those pages, as far as they have been used */
    size_t blocks; /* that live */
    size_t areas;  /* pages, those without a live block too */
};

static inline bool sti_backend_add_area(const mi_heap_t *heap, const mi_heap_area_t *area, void *block,
                                        size_t block_size, void *size)
{
    (void)heap;
    (void)block;
    (void)block_size;
    struct sti_backend_size *sum = size;
    sum->held += area->used * area->full_block_size;
    if (area->used > 0)
        sum->pages += area->committed > STI_BACKEND_SLICE ? area->committed : STI_BACKEND_SLICE;
    sum->blocks += area->used;
    sum->areas++;
    return true;
}

/* Of the calling thread's part of a heap: of all pages but those that mimalloc has given up. Blocks that another thread
 * has freed may still be counted until the next collection: never too few. */
static inline struct sti_backend_size sti_backend_theap_size(sti_backend_theap *theap)
{
    struct sti_backend_size sum = { 0, 0, 0, 0 };
    mi_theap_visit_blocks(theap, false, sti_backend_add_area, &sum);
    return sum;
}

/* By mimalloc's counts, which do not touch a page: so while others free in those that it has given up, too. Of the
 * calling thread's part, and of those of threads that have ended. A page that is given back is taken off the first
 * count before anything else is done with it. */
struct sti_backend_pages {
    size_t now;        /* SIZE_MAX: unknown */
    uint64_t given_up; /* ever */
};

static inline struct sti_backend_pages sti_backend_heap_pages(sti_backend_heap *heap)
{
    mi_stats_t stats;
    stats.size = sizeof stats;
    stats.version = MI_STAT_VERSION;
    if (!mi_heap_stats_get(heap, &stats))
        return (struct sti_backend_pages){ SIZE_MAX, 0 };
    return (struct sti_backend_pages){ (size_t)stats.pages.current, (uint64_t)stats.pages_abandoned.total };
}

/* A page of the calling thread's part of a heap, in which blocks of one size live. */
struct sti_backend_area {
    uintptr_t begin; /* of its first block, */
    uintptr_t end;   /* behind the last that has been made, and */
    uintptr_t reach; /* behind where further ones would lie */
    size_t block_size;
    size_t used; /* so many live */
};

typedef void sti_backend_area_fn(const struct sti_backend_area *area, void *arg);

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
    uintptr_t begin = (uintptr_t)area->blocks;
    size_t size = area->reserved > area->committed ? area->reserved : area->committed;
    if (area->used > 0 && area->full_block_size > 0)
        areas->visit(&(struct sti_backend_area){ begin, begin + area->committed, begin + size, area->full_block_size,
                                                 area->used },
                     areas->arg);
    return true;
}

static inline void sti_backend_theap_areas(sti_backend_theap *theap, sti_backend_area_fn *visit, void *arg)
{
    struct sti_backend_area_visit areas = { .visit = visit, .arg = arg };
    mi_theap_visit_blocks(theap, false, sti_backend_visit_area, &areas);
}

/* Live blocks of the calling thread's part, each with the beginning of its page, as long as visit says so. What other
 * threads have freed is taken in first. */
typedef bool sti_backend_block_fn(void *block, uintptr_t page, void *arg);

struct sti_backend_block_visit {
    sti_backend_block_fn *visit;
    void *arg;
    bool stopped;
};

static inline bool sti_backend_visit_block(const mi_heap_t *heap, const mi_heap_area_t *area, void *block,
                                           size_t block_size, void *visit)
{
    (void)heap;
    (void)block_size;
    struct sti_backend_block_visit *blocks = visit;
    blocks->stopped = block != NULL && !blocks->visit(block, (uintptr_t)area->blocks, blocks->arg);
    return !blocks->stopped;
}

/* False: it was stopped. */
static inline bool sti_backend_theap_blocks(sti_backend_theap *theap, sti_backend_block_fn *visit, void *arg)
{
    struct sti_backend_block_visit blocks = { .visit = visit, .arg = arg, .stopped = false };
    mi_theap_visit_blocks(theap, true, sti_backend_visit_block, &blocks);
    return !blocks.stopped;
}

static inline void *sti_backend_made(void *block)
{
#ifdef STI_TSAN
    if (mi_is_in_heap_region(block))
        sti_tsan_made(block, mi_usable_size(block));
#endif
    return block;
}

static inline void sti_backend_given_back(void *block)
{
#ifdef STI_TSAN
    sti_tsan_given_back(block, mi_usable_size(block));
#else
    (void)block;
#endif
}

static inline void *sti_backend_theap_malloc(sti_backend_theap *theap, size_t size)
{
    return sti_backend_made(mi_theap_malloc(theap, size));
}

/* The sizes of blocks that the next function makes; it has the shortest way to one. */
#define STI_BACKEND_SMALL ((size_t)MI_SMALL_SIZE_MAX)

static inline void *sti_backend_theap_malloc_small(sti_backend_theap *theap, size_t size)
{
    return sti_backend_made(mi_theap_malloc_small(theap, size));
}

static inline void *sti_backend_theap_zalloc(sti_backend_theap *theap, size_t size)
{
#ifdef STI_TSAN
    void *block = sti_backend_theap_malloc(theap, size); /* cleared by mimalloc, it would be before it is seen made */
    return block != NULL ? memset(block, 0, size) : NULL;
#else
    return mi_theap_zalloc(theap, size);
#endif
}

static inline void *sti_backend_theap_aligned(sti_backend_theap *theap, size_t alignment, size_t size)
{
    return sti_backend_made(mi_theap_malloc_aligned(theap, size, alignment));
}

/* Blocks of the process. mimalloc makes them; in the child of a fork(2) that is part of a process, libc does
 * (process.h). */
struct sti_backend_process {
    void *(*malloc)(size_t size);
    void *(*zalloc)(size_t size);
    void *(*aligned)(size_t size, size_t alignment);
};
extern struct sti_backend_process sti_backend_process __attribute__((visibility("hidden")));

#define STI_BACKEND_PROCESS                                                                                            \
    {                                                                                                                  \
        mi_malloc, mi_zalloc, mi_malloc_aligned                                                                        \
    }

static inline void *sti_backend_malloc(size_t size)
{
    return sti_backend_made(sti_backend_process.malloc(size));
}

static inline void *sti_backend_zalloc(size_t size)
{
#ifdef STI_TSAN
    void *block = sti_backend_malloc(size);
    return block != NULL ? memset(block, 0, size) : NULL;
#else
    return sti_backend_process.zalloc(size);
#endif
}

static inline void *sti_backend_realloc(void *block, size_t size)
{
    sti_backend_given_back(block);
    return sti_backend_made(mi_realloc(block, size));
}

static inline void *sti_backend_aligned(size_t alignment, size_t size)
{
    return sti_backend_made(sti_backend_process.aligned(size, alignment));
}

#ifdef STI_TSAN
/* One function for the whole library: its address is compared. */
#define STI_BACKEND_FREE sti_backend_free_seen
__attribute__((weak, visibility("hidden"))) void sti_backend_free_seen(void *block);
__attribute__((weak, visibility("hidden"))) void sti_backend_free_seen(void *block)
{
    sti_backend_given_back(block);
    mi_free(block);
}
#else
#define STI_BACKEND_FREE mi_free
#endif

static inline void sti_backend_free(void *block)
{
    STI_BACKEND_FREE(block);
}

/* Whether the allocator has made the block at this address; any address may be asked for. */
static inline bool sti_backend_has_made(const void *block)
{
    return mi_is_in_heap_region(block);
}

static inline size_t sti_backend_usable_size(const void *block)
{
    return mi_usable_size(block);
}

/* The heap of a live block; block may be any address inside it. */
static inline sti_backend_heap *sti_backend_heap_of(const void *block)
{
    return mi_heap_of(block);
}

/* The process's. */
static inline sti_backend_heap *sti_backend_heap_main(void)
{
    return mi_heap_main();
}

/* What a block of this size will hold once made, at most. mi_good_size does not tell it of those that have a page to
 * themselves: these get what the system is asked for, in ever larger steps. */
static inline size_t sti_backend_block_size(size_t size)
{
    const size_t kib = 1024;
    if (size <= 512 * kib)
        return mi_good_size(size);
    size_t step = size <= 2048 * kib    ? 64 * kib
                  : size <= 8192 * kib  ? 256 * kib
                  : size <= 32768 * kib ? 1024 * kib
                                        : 4096 * kib;
    return (size + step - 1) / step * step;
}

/* mimalloc keeps a thread-specific value of its own; it has to be set before a scope starts to undo such values. */
static inline void sti_backend_thread_init(void)
{
    mi_thread_init();
}

/* As its destructor does it, which may not be called any more for what the thread has allocated since. */
static inline void sti_backend_thread_done(void)
{
    mi_thread_done();
}

/* What mimalloc cannot do is told to one function, with an errno value, on the thread that asked. */
static inline void sti_backend_on_error(void (*heard)(int error, void *unused))
{
    mi_register_error(heard, NULL);
}

/* mimalloc calls a function, on the allocating thread, once in a thousand times that it leaves its own fast path. It
 * may allocate. Forced ones come with a collection. NULL: none. */
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
